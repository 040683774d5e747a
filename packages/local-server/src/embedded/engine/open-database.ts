import type { DatabaseSettings } from '../../backend.ts'
import type { CallBoard } from '../protocol/call-board.ts'
import { SYSTEM_CLOCK } from '../protocol/clock.ts'
import { DatabaseBoard } from '../protocol/database-board.ts'
import type {
  Answer,
  CallOutcome,
  CursorCall,
  DumpCall,
  FromHost,
  MigrationCall,
  OpenedDatabase,
  PipelineCall,
  Question,
  SnapshotCall,
  StreamCall,
} from '../protocol/host-messages.ts'
import { PipelineFailure } from '../protocol/pipeline-failure.ts'
import type { EngineModule } from '../webassembly-types.ts'
import { FileInUseError } from './claim-file.ts'
import { ClientLeftError } from './connection.ts'
import { runCursor } from './cursor.ts'
import { Database } from './database.ts'
import { DatabaseFiles } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import { decodeMigration } from './migration-program.ts'
import { runPipeline } from './pipeline.ts'
import { ReaderGate, writerGate } from './read-gate.ts'
import { attachRefused } from './refusals.ts'
import { ResultError } from './result-error.ts'
import { failureOf, runMigration, tryMigration } from './run-migration.ts'
import { Session } from './session.ts'
import { StoredTexts } from './stored-texts.ts'

/** The answer to a client that has left; nobody reads it. */
const CLIENT_LEFT = 499

/** What a worker has for every database. */
export interface WorkerParts {
  readonly module: EngineModule
  readonly board: CallBoard
  readonly send: (message: FromHost) => void
  readonly fail: (error: unknown) => never
}

/** A database that is open in a worker, with an engine of its own, and the sessions of its streams. */
export class OpenDatabase {
  readonly #board: CallBoard
  readonly #send: (message: FromHost) => void
  readonly #files: DatabaseFiles
  readonly #database: Database
  readonly #sessions = new Map<number, Session>()
  /** Calls on their way, and the session each one runs in. */
  readonly #running = new Map<number, Session>()
  readonly #cursorReaders = new Map<number, () => void>()
  /** Questions to the server that it has not answered. */
  readonly #questions = new Map<number, (answer: Answer) => void>()
  #lastQuestion = 0

  constructor(opened: OpenedDatabase, parts: WorkerParts) {
    const { id, path, settings, role, dialect, isKept, board: memory, reader } = opened
    this.#board = parts.board
    this.#send = parts.send
    const board = new DatabaseBoard(memory)
    const gate = reader === null ? writerGate(board) : new ReaderGate(board, reader)
    this.#files = new DatabaseFiles(path, gate, isKept)
    const { onlyRead } = gate
    try {
      const engine = new EngineInstance(parts.module, { ...parts, files: this.#files, gate })
      this.#database = new Database(engine, {
        id,
        settings,
        role,
        dialect,
        isKept,
        clock: SYSTEM_CLOCK,
        board,
        onlyRead,
        onChanges: (changes) => this.#send({ type: 'changes', changes }),
      })
    } catch (error) {
      this.#files.closeAll()
      this.#files.release()
      throw error
    }
  }

  applySettings(settings: DatabaseSettings): void {
    this.#database.applySettings(settings)
  }

  set isWatched(isWatched: boolean) {
    this.#database.isWatched = isWatched
  }

  /** Runs a call and sends its answer. @throws WebAssembly.RuntimeError, RangeError when the engine has failed */
  async answer(message: StreamCall): Promise<void> {
    const { call, stream } = message
    if (this.#board.isEnding) return // it is made again elsewhere
    let outcome: CallOutcome
    try {
      // before anything runs: what is not on the board has not happened
      this.#board.begin(call)
      const session = this.#sessionFor(stream)
      this.#running.set(call, session)
      outcome = await this.#run(session, message)
    } catch (error) {
      if (isFatal(error)) throw error
      outcome = failureOutcome(error)
    }
    this.#running.delete(call)
    // whoever has left a pipeline does not know the next baton; that of a cursor comes with its first line
    const isLost = this.#board.isAbandoned(call) && message.type === 'pipeline'
    this.#send({ type: 'answer', call, outcome, usage: this.#database.meter.take() })
    if (isLost || outcome.type === 'failure' || outcome.isClosed) this.closeSession(stream)
  }

  /** The client wants the next piece of a cursor. */
  readOn(call: number): void {
    this.#cursorReaders.get(call)?.()
    this.#cursorReaders.delete(call)
  }

  /** The server has answered a question. */
  told(number: number, answer: Answer): void {
    this.#questions.get(number)?.(answer)
    this.#questions.delete(number)
  }

  /** The client of a call has left. */
  abandon(call: number): void {
    this.#running.get(call)?.stopWaiting(call)
    this.readOn(call)
  }

  closeSession(stream: number): void {
    const session = this.#sessions.get(stream)
    if (session === undefined) return
    this.#sessions.delete(stream)
    void session.exclusive(0, async () => session.close())
    setImmediate(() => this.#database.prepareSpare())
  }

  /** Rolls back what is open, and leaves a file that every program can read. */
  close(): void {
    for (const session of this.#sessions.values()) session.close()
    this.#database.close()
    this.#files.release()
  }

  /** Lets go of a database that is about to be removed. */
  drop(): void {
    this.#files.closeAll()
  }

  #sessionFor(stream: number): Session {
    let session = this.#sessions.get(stream)
    if (session === undefined) {
      session = new Session(this.#database, new StoredTexts(this.#database.dialect === 'cloud'), {
        isAbandoned: (call) => this.#board.isAbandoned(call),
        attach: (name, allowed) =>
          this.#files.attach(async (path) => {
            const refusal = await this.#ask({ type: 'attach', name, allowed, path })
            if (refusal !== null) throw attachRefused(name, refusal !== 'not permitted')
          }),
        migrate: (program) => this.#ask({ type: 'migrate', program }),
      })
      this.#sessions.set(stream, session)
    }
    return session
  }

  #run(session: Session, message: StreamCall): Promise<CallOutcome> {
    switch (message.type) {
      case 'pipeline':
        return this.#pipeline(session, message)
      case 'cursor':
        return this.#cursor(session, message)
      case 'dump':
        return this.#dump(session, message)
      case 'migration':
        return this.#migrate(session, message)
      case 'snapshot':
        return this.#snapshot(session, message)
      default:
        return message satisfies never
    }
  }

  async #pipeline(
    session: Session,
    { call, requests, version, permissions }: PipelineCall,
  ): Promise<CallOutcome> {
    const program = { requests, version, permissions }
    const outcome = await session.exclusive(call, () => runPipeline(session, this.#database, program))
    return { type: 'results', ...outcome }
  }

  async #cursor(session: Session, { call, steps, permissions }: CursorCall): Promise<CallOutcome> {
    let hasBegun = false
    const onReady = (): void => {
      hasBegun = true
      this.#send({ type: 'cursor-begin', call })
    }
    try {
      await session.exclusive(call, () =>
        runCursor(session, this.#database, { steps, permissions, onReady }, this.#outputOf(call, session)),
      )
    } catch (error) {
      // the client has the baton since the first line: the stream goes on without the cursor
      if (!(error instanceof ClientLeftError && hasBegun)) throw error
    }
    return { type: 'results', text: '', isClosed: false }
  }

  async #dump(session: Session, { call, preserveRowIds }: DumpCall): Promise<CallOutcome> {
    this.#send({ type: 'cursor-begin', call })
    const output = this.#outputOf(call, session)
    await session.exclusive(call, () => this.#database.dump(call, preserveRowIds, output))
    return { type: 'results', text: '', isClosed: true }
  }

  async #migrate(session: Session, { call, job, program, isDryRun }: MigrationCall): Promise<CallOutcome> {
    const run = async (): Promise<unknown> =>
      isDryRun
        ? await tryMigration(session, decodeMigration(program))
        : await runMigration(session, this.#database, { text: program, job })
    try {
      await session.exclusive(call, run)
      return { type: 'results', text: '', isClosed: true }
    } catch (error) {
      if (isFatal(error)) throw error
      return { type: 'results', text: failureOf(error), isClosed: true }
    }
  }

  async #snapshot(session: Session, { call, path }: SnapshotCall): Promise<CallOutcome> {
    await session.exclusive(call, async () => this.#files.copyTo(path))
    return { type: 'results', text: '', isClosed: true }
  }

  #ask(question: Question): Promise<Answer> {
    this.#lastQuestion += 1
    const number = this.#lastQuestion
    return new Promise((resolve) => {
      this.#questions.set(number, resolve)
      this.#send({ type: 'ask', number, question })
    })
  }

  /** Hands text over and waits until the client wants more. @throws ClientLeftError when it has left */
  #outputOf(call: number, session: Session): (text: string) => Promise<void> {
    return async (text) => {
      if (!this.#board.isAbandoned(call)) {
        this.#send({ type: 'cursor-lines', call, text })
        await session.waiting(() => new Promise<void>((resolve) => this.#cursorReaders.set(call, resolve)))
      }
      if (this.#board.isAbandoned(call)) throw new ClientLeftError()
    }
  }
}

/** The answer to a call that has failed as a whole. */
export function failureOutcome(error: unknown): CallOutcome {
  const { status, contentType, body } = asFailure(error)
  return { type: 'failure', status, contentType, body }
}

function asFailure(error: unknown): PipelineFailure {
  if (error instanceof PipelineFailure) return error
  const text = error instanceof ResultError || error instanceof FileInUseError ? error.message : String(error)
  return PipelineFailure.service(
    error instanceof ClientLeftError ? CLIENT_LEFT : 500,
    `Internal Error: \`${text}\``,
  )
}

/** After these the engine's memory may be in any state. */
function isFatal(error: unknown): boolean {
  return error instanceof WebAssembly.RuntimeError || error instanceof RangeError
}
