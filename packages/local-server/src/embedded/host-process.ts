/*
 * Main program of an engine host: a process that holds the connections of one database. It may be ended at any
 * moment, by the server or by the engine itself, which aborts on some SQL.
 */
import { writeSync } from 'node:fs'
import { flushCompileCache } from 'node:module'
import { Worker } from 'node:worker_threads'
import { CursorLeftError, runCursor } from './cursor.ts'
import { Database } from './database.ts'
import { openEngine } from './engine.ts'
import { type CallOutcome, type FromHost, REPORT_FD, type ToHost } from './host-messages.ts'
import { runPipeline } from './pipeline.ts'
import { PipelineFailure } from './pipeline-failure.ts'
import { ResultError } from './result-error.ts'
import { Session } from './session.ts'
import { StoredTexts } from './stored-texts.ts'
import { SYSTEM_CLOCK } from './system-clock.ts'

const sessions = new Map<number, Session>()
const abandoned = new Set<number>()
const cursorReaders = new Map<number, () => void>()
let database: Database | null = null

function send(message: FromHost): void {
  process.send?.(message)
}

function openDatabase(): Database {
  if (database === null) throw new Error('the engine host has no database yet')
  return database
}

function sessionFor(stream: number): Session {
  let session = sessions.get(stream)
  if (session === undefined) {
    session = new Session(openDatabase(), new StoredTexts(), busyWith)
    sessions.set(stream, session)
  }
  return session
}

function closeSession(stream: number): void {
  const session = sessions.get(stream)
  if (session === undefined) return
  sessions.delete(stream)
  void session.exclusive(async () => session.close())
  setImmediate(() => database?.prepareSpare())
}

async function answer(message: Extract<ToHost, { type: 'pipeline' | 'cursor' }>): Promise<void> {
  let outcome: CallOutcome
  try {
    outcome = message.type === 'pipeline' ? await pipeline(message) : await cursor(message)
  } catch (error) {
    const { status, contentType, body } = asFailure(error)
    outcome = { type: 'failure', status, contentType, body }
  }
  abandoned.delete(message.call)
  send({ type: 'answer', call: message.call, outcome })
  if (outcome.type === 'failure' || outcome.isClosed) closeSession(message.stream)
}

function asFailure(error: unknown): PipelineFailure {
  if (error instanceof PipelineFailure) return error
  const text = error instanceof ResultError ? error.message : String(error)
  return PipelineFailure.service(500, `Internal Error: \`${text}\``)
}

async function pipeline(message: Extract<ToHost, { type: 'pipeline' }>): Promise<CallOutcome> {
  const { requests, version, rights, call } = message
  const isAbandoned = (): boolean => abandoned.has(call)
  const pipelineCall = { requests, version, rights, isAbandoned }
  const session = sessionFor(message.stream)
  const outcome = await session.exclusive(() => {
    session.call = call
    return runPipeline(session, openDatabase(), pipelineCall)
  })
  return { type: 'results', ...outcome }
}

async function cursor(message: Extract<ToHost, { type: 'cursor' }>): Promise<CallOutcome> {
  const { call, steps, rights } = message
  const onReady = (): void => send({ type: 'cursor-begin', call })
  const session = sessionFor(message.stream)
  const output = async (text: string): Promise<void> => {
    if (!abandoned.has(call)) {
      send({ type: 'cursor-lines', call, text })
      await session.waiting(() => new Promise<void>((resolve) => cursorReaders.set(call, resolve)))
    }
    if (abandoned.has(call)) throw new CursorLeftError()
  }
  const running = session.exclusive(() => {
    session.call = call
    return runCursor(session, openDatabase(), { steps, rights, onReady }, output)
  })
  await running.catch((error: unknown) => {
    // the stream goes on without it
    if (!(error instanceof CursorLeftError)) throw error
  })
  return { type: 'results', text: '', isClosed: false }
}

function readOn(call: number): void {
  cursorReaders.get(call)?.()
  cursorReaders.delete(call)
}

function receive(message: ToHost): void {
  switch (message.type) {
    case 'open':
      database = new Database(message.id, message.path, message.settings, SYSTEM_CLOCK)
      return
    case 'settings':
      openDatabase().applySettings(message.settings)
      return
    case 'pipeline':
    case 'cursor':
      // written before anything runs: what has not been announced has not happened
      if (message.announce) writeSync(REPORT_FD, `begun ${message.call}\n`)
      void answer(message)
      return
    case 'cursor-read':
      readOn(message.call)
      return
    case 'abandon':
      abandoned.add(message.call)
      readOn(message.call)
      return
    case 'close-stream':
      closeSession(message.stream)
      return
    default:
      message satisfies never
  }
}

/** The call whose statement the engine is working on, for the watchdog; 0 for none. */
const busyWith = new Int32Array(new SharedArrayBuffer(4))
const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
new Worker(new URL(`./host-watchdog.${extension}`, import.meta.url), { workerData: { busyWith } }).unref()

process.on('message', receive)
process.on('disconnect', () => process.exit(0))
// Ctrl-C in a terminal reaches the whole group; the server decides when a host ends
process.on('SIGINT', () => {})

const engine = openEngine(':memory:')
const version = engine.prepare('SELECT sqlite_version()').raw().iterate([]).next().value as readonly string[]
engine.close()
send({ type: 'ready', sqliteVersion: version[0] ?? '' })
// a host is seldom given the time to do this at its end
setImmediate(flushCompileCache)
