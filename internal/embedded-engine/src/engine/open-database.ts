import type { DatabaseSettings } from '@batonsql/server-common/backend'
import { PipelineFailure, ResultError } from '@batonsql/server-common/hrana'
import { unpackRequest, unpackStep } from '../protocol/packed-work.ts'
import type { SharedCallState } from '../protocol/shared-call-state.ts'
import {
  type CallOutcome,
  type DatabaseToOpen,
  type FromWorker,
  NO_ATTACH_PERMISSION,
  type Reply,
  type StreamCall,
  type TableChanges,
  type WorkerRequest,
} from '../protocol/worker-messages.ts'
import type { TextOutput } from './chunked-text.ts'
import { FileClaimError } from './claim-file.ts'
import { ClientDisconnectedError } from './client-connection.ts'
import { CursorLines } from './cursor.ts'
import { Database } from './database.ts'
import { DatabaseFiles } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import type { ErasableInstance } from './erasable-instance.ts'
import { decodeMigration } from './migration-program.ts'
import { runPipeline } from './pipeline.ts'
import { dryRunMigration, runMigration } from './run-migration.ts'
import { Session } from './session.ts'
import { attachRejection } from './statement-checks.ts'
import { StoredTexts } from './stored-texts.ts'

/** Status for a client that has disconnected; it is never sent. */
const CLIENT_DISCONNECTED = 499

const EMPTY_RESULTS = { type: 'results', text: '', isClosed: true } as const

type CursorCall = Extract<StreamCall, { readonly type: 'cursor' }>
type MigrationCall = Extract<StreamCall, { readonly type: 'migration' }>

/** Dependencies that all databases of a worker share. */
export interface WorkerDependencies {
  /** Returns an instance for a new engine, whose start invalidates the previous engine. */
  readonly instance: () => ErasableInstance
  readonly state: SharedCallState
  readonly send: (message: FromWorker) => void
  readonly fail: (error: unknown) => never
}

/** A database that is open in a worker, with its engine and the sessions of its streams. */
export class OpenDatabase {
  readonly #state: SharedCallState
  readonly #send: (message: FromWorker) => void
  readonly #files: DatabaseFiles
  readonly #engine: EngineInstance
  readonly #database: Database
  readonly #sessions = new Map<number, Session>()
  /** Calls in flight, with their sessions. */
  readonly #running = new Map<number, Session>()
  /** For each cursor or dump that waits for its reader, a function that ends the wait. */
  readonly #cursorReaders = new Map<number, () => void>()
  /** Pending requests to the server. */
  readonly #requests = new Map<number, (reply: Reply) => void>()
  #lastRequest = 0
  #isClosed = false

  constructor(database: DatabaseToOpen, dependencies: WorkerDependencies) {
    const { path, isDurable } = database
    this.#state = dependencies.state
    this.#send = dependencies.send
    this.#files = new DatabaseFiles(path, isDurable)
    try {
      this.#engine = new EngineInstance(dependencies.instance(), { ...dependencies, files: this.#files })
      const onChanges = (changes: readonly TableChanges[]): void => this.#send({ type: 'changes', changes })
      this.#database = new Database(this.#engine, { ...database, onChanges })
    } catch (error) {
      this.#files.closeAll()
      this.#files.release()
      throw error
    }
  }

  get commitCount(): bigint {
    return this.#database.commitCount
  }

  applySettings(settings: DatabaseSettings): void {
    this.#database.applySettings(settings)
  }

  set isWatched(isWatched: boolean) {
    this.#database.isWatched = isWatched
  }

  /** Runs a call and sends its outcome. @throws WebAssembly.RuntimeError, RangeError if the engine has failed */
  async run(message: StreamCall): Promise<void> {
    const { call, stream } = message
    if (this.#state.isShuttingDown) return // retried in another worker
    let outcome: CallOutcome
    try {
      // recorded first: a call that is not in the shared state counts as not begun
      this.#state.begin(call)
      const session = this.#getSession(stream)
      this.#running.set(call, session)
      outcome = await this.#run(session, message)
    } catch (error) {
      if (isFatal(error)) throw error
      outcome = failureOutcome(error)
    }
    this.#running.delete(call)
    // a client that disconnected during a pipeline has not received the next baton; a cursor sends it in the first line
    const isLost = this.#state.isAbandoned(call) && message.type === 'pipeline'
    this.#send({ type: 'outcome', call, outcome, usage: this.#database.meter.take() })
    if (isLost || outcome.type === 'failure' || outcome.isClosed) this.closeSession(stream)
  }

  /** Called when the client requests the next chunk of a cursor or dump. */
  readMore(call: number): void {
    this.#cursorReaders.get(call)?.()
    this.#cursorReaders.delete(call)
  }

  /** Called when the server has responded to a request. */
  onReply(number: number, reply: Reply): void {
    this.#requests.get(number)?.(reply)
    this.#requests.delete(number)
  }

  /** Called when the client of a call has disconnected. */
  abandon(call: number): void {
    this.#running.get(call)?.stopWaiting(call)
    this.readMore(call)
  }

  /** Keeps buffers of results that have been sent, for reuse. */
  recycle(buffers: readonly ArrayBuffer[]): void {
    for (const buffer of buffers) this.#engine.recycle(buffer)
  }

  closeSession(stream: number): void {
    const session = this.#sessions.get(stream)
    if (session === undefined) return
    this.#sessions.delete(stream)
    void session.runExclusively(0, async () => session.close())
    setImmediate(() => {
      if (!this.#isClosed) this.#database.prepareSpare()
    })
  }

  /** Closes the database: rolls back open transactions, and leaves a file that all programs can read. */
  close(): void {
    this.#isClosed = true
    for (const session of this.#sessions.values()) session.close()
    this.#database.close()
    this.#files.release()
  }

  /** Closes a database whose files are about to be removed, without writing to them. */
  drop(): void {
    this.#isClosed = true
    this.#files.closeAll()
  }

  #getSession(stream: number): Session {
    let session = this.#sessions.get(stream)
    if (session === undefined) {
      session = new Session(this.#database, new StoredTexts(this.#database.dialect === 'cloud'), {
        isAbandoned: (call) => this.#state.isAbandoned(call),
        attach: (name, allowed) =>
          this.#files.attach(async (path) => {
            const rejection = await this.#request({ type: 'attach', stream, name, allowed, path })
            if (rejection !== null) throw attachRejection(name, rejection !== NO_ATTACH_PERMISSION)
          }),
        migrate: (program) => this.#request({ type: 'migrate', program }),
      })
      this.#sessions.set(stream, session)
    }
    return session
  }

  async #run(session: Session, message: StreamCall): Promise<CallOutcome> {
    const { call } = message
    const database = this.#database
    switch (message.type) {
      case 'pipeline':
        return {
          type: 'results',
          ...(await session.runExclusively(call, () =>
            runPipeline(session, database, { ...message, requests: message.requests.map(unpackRequest) }),
          )),
        }
      case 'cursor':
        await this.#cursor(session, message)
        return { ...EMPTY_RESULTS, isClosed: false }
      case 'dump':
        this.#send({ type: 'cursor-begin', call })
        await session.runExclusively(call, () =>
          database.dump(call, message.preserveRowIds, this.#createOutput(call, session)),
        )
        return EMPTY_RESULTS
      case 'migration':
        return { ...EMPTY_RESULTS, text: await this.#migrate(session, message) }
      case 'snapshot':
        await session.runExclusively(call, async () => this.#files.copyTo(message.path))
        return EMPTY_RESULTS
      default:
        return message satisfies never
    }
  }

  async #cursor(session: Session, { call, steps, permissions }: CursorCall): Promise<void> {
    const { dialect } = this.#database
    let hasBegun = false
    const onReady = (): void => {
      hasBegun = true
      this.#send({ type: 'cursor-begin', call })
    }
    try {
      await session.runExclusively(call, async () => {
        const lines = new CursorLines(this.#createOutput(call, session), dialect)
        await session.cursor(steps.map(unpackStep), permissions, lines, onReady)
        await lines.end(dialect === 'cloud' ? null : this.#database.replicationIndex)
      })
    } catch (error) {
      // the client received the baton in the first line, so the stream can be continued
      if (!(error instanceof ClientDisconnectedError && hasBegun)) throw error
    }
  }

  /** Runs a migration. @returns its error; empty on success */
  async #migrate(session: Session, { call, job, program, isDryRun }: MigrationCall): Promise<string> {
    const run = async (): Promise<unknown> =>
      isDryRun
        ? await dryRunMigration(session, decodeMigration(program))
        : await runMigration(session, this.#database, { text: program, job })
    try {
      await session.runExclusively(call, run)
      return ''
    } catch (error) {
      if (isFatal(error)) throw error
      return error instanceof Error ? error.message : String(error)
    }
  }

  /** Sends a request to the server. @returns the error for the client; null on success @throws Error for an internal error */
  async #request(request: WorkerRequest): Promise<string | null> {
    this.#lastRequest += 1
    const number = this.#lastRequest
    const reply = await new Promise<Reply>((resolve) => {
      this.#requests.set(number, resolve)
      this.#send({ type: 'request', number, request })
    })
    if (reply !== null && typeof reply !== 'string') throw new Error(reply.internalError)
    return reply
  }

  /**
   * Returns a function that sends text and waits until more is requested.
   * @throws ClientDisconnectedError if the client has disconnected
   */
  #createOutput(call: number, session: Session): TextOutput {
    return async (text) => {
      if (!this.#state.isAbandoned(call)) {
        this.#send({ type: 'cursor-lines', call, text })
        await session.withPreemption(
          () => new Promise<void>((resolve) => this.#cursorReaders.set(call, resolve)),
        )
      }
      if (this.#state.isAbandoned(call)) throw new ClientDisconnectedError()
    }
  }
}

/** Returns the outcome of a call that has failed as a whole. */
export function failureOutcome(error: unknown): CallOutcome {
  const { status, contentType, body } = asFailure(error)
  return { type: 'failure', status, contentType, body }
}

function asFailure(error: unknown): PipelineFailure {
  if (error instanceof PipelineFailure) return error
  const text = error instanceof ResultError || error instanceof FileClaimError ? error.message : String(error)
  return PipelineFailure.service(
    error instanceof ClientDisconnectedError ? CLIENT_DISCONNECTED : 500,
    `Internal Error: \`${text}\``,
  )
}

/** Whether the engine's memory may be in any state after an error. */
function isFatal(error: unknown): boolean {
  return error instanceof WebAssembly.RuntimeError || error instanceof RangeError
}
