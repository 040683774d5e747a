/*
 * Main program of a worker thread, which has one database open at a time. The server may terminate it at any moment; it exits if the
 * engine has failed irrecoverably.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { buffersOf } from '../protocol/json-text.ts'
import { SharedCallState } from '../protocol/shared-call-state.ts'
import type {
  FromWorker,
  OpenedDatabase,
  StreamCall,
  ToWorker,
  WorkerStart,
} from '../protocol/worker-messages.ts'
import { DatabaseFiles } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import { ErasableInstance } from './erasable-instance.ts'
import { failureOutcome, OpenDatabase } from './open-database.ts'

const { module, state: memory } = workerData as WorkerStart
const state = new SharedCallState(memory)
/** Reused for one database after another. */
let instance = new ErasableInstance(module)
/** The assigned database, and its open instance. */
let assigned: OpenedDatabase | null = null
let open: OpenDatabase | null = null
let isWatched = false

function send(message: FromWorker): void {
  parentPort?.postMessage(message, buffersIn(message))
}

/** Returns the buffers of a message that are transferred instead of copied. */
function buffersIn(message: FromWorker): ArrayBuffer[] {
  if (message.type === 'cursor-lines') return buffersOf(message.text)
  return message.type === 'outcome' && message.outcome.type === 'results'
    ? buffersOf(message.outcome.text)
    : []
}

/** Returns the open database. If opening fails, every call retries it. */
function current(): OpenDatabase {
  if (open !== null) return open
  if (assigned === null) throw new Error('the worker has no database')
  open = new OpenDatabase(assigned, { instance: reusableInstance, state, send, fail })
  open.isWatched = isWatched
  return open
}

function reusableInstance(): ErasableInstance {
  if (!instance.isReusable) instance = new ErasableInstance(module)
  return instance
}

/** Opens the database before the first call. */
function openEarly(): void {
  try {
    current()
  } catch {
    // the next call retries and reports the error
  }
}

/** Ends the worker. The server reports the failure to clients; committed changes are in the file or its WAL. */
function fail(error: unknown): never {
  console.error(error instanceof Error ? `${error.name}: ${error.message}` : String(error))
  process.exit(1)
}

async function runCall(message: StreamCall): Promise<void> {
  let database: OpenDatabase
  try {
    database = current()
  } catch (error) {
    state.begin(message.call)
    const outcome = failureOutcome(error)
    return send({ type: 'outcome', call: message.call, outcome, usage: [] })
  }
  await database.run(message).catch(fail)
}

function sqliteVersion(): string {
  return new EngineInstance(instance, { files: new DatabaseFiles(null), state, fail }).version
}

/** Ignores messages for a database that was released. */
function receive(message: ToWorker): void {
  switch (message.type) {
    case 'open':
      assigned = message
      isWatched = false
      return openEarly()
    case 'settings':
      if (assigned !== null) assigned = { ...assigned, settings: message.settings }
      return open?.applySettings(message.settings)
    case 'pipeline':
    case 'cursor':
    case 'dump':
    case 'migration':
    case 'snapshot':
      void runCall(message)
      return
    case 'watch':
      isWatched = message.isWatched
      if (open !== null) open.isWatched = isWatched
      return
    case 'reply':
      return open?.replied(message.number, message.reply)
    case 'cursor-read':
      return open?.readMore(message.call)
    case 'abandon':
      return open?.abandon(message.call)
    case 'recycle':
      return open?.recycle(message.buffers)
    case 'close-stream':
      return open?.closeSession(message.stream)
    case 'release':
      if (message.keep) open?.close()
      else open?.drop()
      open = assigned = null
      return send({ type: 'released' })
    case 'end':
      open?.close()
      return process.exit(0)
    default:
      message satisfies never
  }
}

parentPort?.on('message', receive)
send({ type: 'ready', sqliteVersion: sqliteVersion() })
