import { BackendRefusal } from '../backend/backend.ts'
import { checkResult, type LoadResult } from '../backend/dumps.ts'
import type { DatabaseCall, DatabaseWorker } from './database-worker.ts'

/** Runs SQL statements in a new database. @throws BackendRefusal with what the engine says of it */
export async function loadDump(worker: DatabaseWorker, call: DatabaseCall, sql: string): Promise<void> {
  const requests = [{ type: 'sequence', sql, sqlId: null }, { type: 'close' }] as const
  const outcome = await worker.run(call, { type: 'pipeline', requests, version: 3 })
  if (outcome.type === 'failure') throw new BackendRefusal(`the dump could not be loaded: ${outcome.body}`)
  checkResult(JSON.parse(outcome.text) as readonly LoadResult[])
}
