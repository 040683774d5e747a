/*
 * Main program of a worker: a thread that holds the connections of one database. The server may end it at any moment;
 * it ends itself when the engine has failed in a way it cannot go on from.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { CallBoard } from '../protocol/call-board.ts'
import { SYSTEM_CLOCK } from '../protocol/clock.ts'
import type { CallOutcome, FromHost, ToHost, WorkerStart } from '../protocol/host-messages.ts'
import { PipelineFailure } from '../protocol/pipeline-failure.ts'
import { ClientLeftError } from './connection.ts'
import { runCursor } from './cursor.ts'
import { Database } from './database.ts'
import { DatabaseFiles } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import { runPipeline } from './pipeline.ts'
import { ResultError } from './result-error.ts'
import { Session } from './session.ts'
import { StoredTexts } from './stored-texts.ts'

/** The answer to a client that has left; nobody reads it. */
const CLIENT_LEFT = 499

const { module, board: memory } = workerData as WorkerStart
const board = new CallBoard(memory)
const files = new DatabaseFiles()
const engine = new EngineInstance(module, files, board)
const sessions = new Map<number, Session>()
/** Calls on their way, and the session each one runs in. */
const running = new Map<number, Session>()
const cursorReaders = new Map<number, () => void>()
let database: Database | null = null

function send(message: FromHost): void {
  parentPort?.postMessage(message)
}

function openDatabase(): Database {
  if (database === null) throw new Error('the worker has no database yet')
  return database
}

function sessionFor(stream: number): Session {
  let session = sessions.get(stream)
  if (session === undefined) {
    session = new Session(openDatabase(), new StoredTexts(), (call) => board.isAbandoned(call))
    sessions.set(stream, session)
  }
  return session
}

function closeSession(stream: number): void {
  const session = sessions.get(stream)
  if (session === undefined) return
  sessions.delete(stream)
  void session.exclusive(0, async () => session.close())
  setImmediate(() => database?.prepareSpare())
}

async function answer(message: Extract<ToHost, { type: 'pipeline' | 'cursor' }>): Promise<void> {
  const { call, stream } = message
  if (board.isEnding) return // it is made again elsewhere
  let outcome: CallOutcome
  try {
    // before anything runs: what is not on the board has not happened
    board.begin(call)
    const session = sessionFor(stream)
    running.set(call, session)
    outcome = message.type === 'pipeline' ? await pipeline(session, message) : await cursor(session, message)
  } catch (error) {
    if (isFatal(error)) fail(error)
    const { status, contentType, body } = asFailure(error)
    outcome = { type: 'failure', status, contentType, body }
  }
  running.delete(call)
  // whoever has left a pipeline does not know the next baton; that of a cursor comes with its first line
  const isLost = board.isAbandoned(call) && message.type === 'pipeline'
  send({ type: 'answer', call, outcome })
  if (isLost || outcome.type === 'failure' || outcome.isClosed) closeSession(stream)
}

async function pipeline(
  session: Session,
  message: Extract<ToHost, { type: 'pipeline' }>,
): Promise<CallOutcome> {
  const { requests, version, permissions, call } = message
  const pipelineCall = { requests, version, permissions }
  const outcome = await session.exclusive(call, () => runPipeline(session, openDatabase(), pipelineCall))
  return { type: 'results', ...outcome }
}

async function cursor(session: Session, message: Extract<ToHost, { type: 'cursor' }>): Promise<CallOutcome> {
  const { call, steps, permissions } = message
  let hasBegun = false
  const onReady = (): void => {
    hasBegun = true
    send({ type: 'cursor-begin', call })
  }
  const output = async (text: string): Promise<void> => {
    if (!board.isAbandoned(call)) {
      send({ type: 'cursor-lines', call, text })
      await session.waiting(() => new Promise<void>((resolve) => cursorReaders.set(call, resolve)))
    }
    if (board.isAbandoned(call)) throw new ClientLeftError()
  }
  try {
    await session.exclusive(call, () =>
      runCursor(session, openDatabase(), { steps, permissions, onReady }, output),
    )
  } catch (error) {
    // the client has the baton since the first line: the stream goes on without the cursor
    if (!(error instanceof ClientLeftError && hasBegun)) throw error
  }
  return { type: 'results', text: '', isClosed: false }
}

function asFailure(error: unknown): PipelineFailure {
  if (error instanceof PipelineFailure) return error
  const text = error instanceof ResultError ? error.message : String(error)
  return PipelineFailure.service(
    error instanceof ClientLeftError ? CLIENT_LEFT : 500,
    `Internal Error: \`${text}\``,
  )
}

/** After these the engine's memory may be in any state. */
function isFatal(error: unknown): boolean {
  return error instanceof WebAssembly.RuntimeError || error instanceof RangeError
}

/** Ends the worker; the server tells the clients, and what was committed is in the file. */
function fail(error: unknown): never {
  console.error(error instanceof Error ? `${error.name}: ${error.message}` : String(error))
  process.exit(1)
}

function readOn(call: number): void {
  cursorReaders.get(call)?.()
  cursorReaders.delete(call)
}

function abandon(call: number): void {
  running.get(call)?.stopWaiting(call)
  readOn(call)
}

function receive(message: ToHost): void {
  switch (message.type) {
    case 'open':
      files.use(message.path)
      database = new Database(engine, { id: message.id, settings: message.settings, clock: SYSTEM_CLOCK })
      return
    case 'settings':
      openDatabase().applySettings(message.settings)
      return
    case 'pipeline':
    case 'cursor':
      void answer(message)
      return
    case 'cursor-read':
      readOn(message.call)
      return
    case 'abandon':
      abandon(message.call)
      return
    case 'close-stream':
      closeSession(message.stream)
      return
    case 'end':
      for (const session of sessions.values()) session.close()
      database?.close()
      files.release()
      return process.exit(0)
    default:
      message satisfies never
  }
}

parentPort?.on('message', receive)
send({ type: 'ready', sqliteVersion: engine.version })
