/*
 * Main program of a worker thread, which has one database open at a time. The server may terminate it at any moment; it exits if the
 * engine has failed irrecoverably.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { getBuffers } from '../protocol/json-text.ts'
import { SharedCallState } from '../protocol/shared-call-state.ts'
import type {
  DatabaseToOpen,
  FromWorker,
  StreamCall,
  ToWorker,
  WorkerStart,
} from '../protocol/worker-messages.ts'
import { DatabaseFiles } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import { ErasableInstance } from './erasable-instance.ts'
import { keepMachineCode } from './keep-machine-code.ts'
import { failureOutcome, OpenDatabase } from './open-database.ts'

const { module, freesMachineCode, state: memory } = workerData as WorkerStart
if (!freesMachineCode) keepMachineCode()
const state = new SharedCallState(memory)
/** Reused for one database after another. It is replaced if it is no longer reusable when a database is opened again after a failure. */
let instance = new ErasableInstance(module)
let assignedDatabase: DatabaseToOpen | null = null
let openDatabase: OpenDatabase | null = null
let isWatched = false

function send(message: FromWorker): void {
  parentPort?.postMessage(message, getTransferredBuffers(message))
}

/** Returns the buffers of a message that are transferred instead of copied. */
function getTransferredBuffers(message: FromWorker): ArrayBuffer[] {
  if (message.type === 'cursor-lines') return getBuffers(message.text)
  return message.type === 'outcome' && message.outcome.type === 'results'
    ? getBuffers(message.outcome.text)
    : []
}

/** Returns the open database, opening it if necessary. If that fails, the next call retries. */
function getDatabase(): OpenDatabase {
  if (openDatabase !== null) return openDatabase
  if (assignedDatabase === null) throw new Error('the worker has no database')
  openDatabase = new OpenDatabase(assignedDatabase, { instance: getInstance, state, send, fail })
  openDatabase.isWatched = isWatched
  return openDatabase
}

function getInstance(): ErasableInstance {
  if (!instance.isReusable) instance = new ErasableInstance(module)
  return instance
}

/** Opens the database before the first call. */
function openEarly(): void {
  try {
    getDatabase()
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
    database = getDatabase()
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

/**
 * Handles a message from the server. Messages do not name their database: those between `release` and the next `open` have no effect,
 * but calls fail, and later ones apply to the next database. The server sends none for an earlier one.
 */
function receive(message: ToWorker): void {
  switch (message.type) {
    case 'open':
      assignedDatabase = message
      isWatched = false
      return openEarly()
    case 'settings':
      if (assignedDatabase !== null) assignedDatabase = { ...assignedDatabase, settings: message.settings }
      return openDatabase?.applySettings(message.settings)
    case 'pipeline':
    case 'cursor':
    case 'dump':
    case 'migration':
    case 'snapshot':
      void runCall(message)
      return
    case 'watch':
      isWatched = message.isWatched
      if (openDatabase !== null) openDatabase.isWatched = isWatched
      return
    case 'reply':
      return openDatabase?.onReply(message.number, message.reply)
    case 'cursor-read':
      return openDatabase?.readMore(message.call)
    case 'abandon':
      return openDatabase?.abandon(message.call)
    case 'recycle':
      return openDatabase?.recycle(message.buffers)
    case 'close-stream':
      return openDatabase?.closeSession(message.stream)
    case 'release': {
      const lastIndex = openDatabase?.commitCount ?? assignedDatabase?.lastIndex ?? null
      if (message.keepsFiles) openDatabase?.close()
      else openDatabase?.drop()
      openDatabase = assignedDatabase = null
      return send({ type: 'released', isReusable: instance.isReusable, lastIndex })
    }
    case 'shut-down':
      openDatabase?.close()
      return process.exit(0)
    default:
      message satisfies never
  }
}

parentPort?.on('message', receive)
send({ type: 'ready', sqliteVersion: sqliteVersion() })
