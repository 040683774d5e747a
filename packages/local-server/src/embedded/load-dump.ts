import { BackendRefusal } from '../backend.ts'
import { checkResult, type LoadResult, readDump } from '../dumps.ts'
import type { DatabaseHosts } from './database-hosts.ts'
import { OWNER } from './protocol/permissions.ts'

const LOADING = { permissions: OWNER, signal: new AbortController().signal }

/** Runs a file of SQL statements in a new database. @throws BackendRefusal with what the engine says of it */
export async function loadDump(hosts: DatabaseHosts, stream: number, file: string): Promise<void> {
  const sql = await readDump(file)
  const requests = [{ type: 'sequence', sql, sqlId: null }, { type: 'close' }] as const
  const outcome = await hosts.pipeline({ ...LOADING, stream }, requests, { version: 3, isWhole: true })
  if (outcome.type === 'failure') throw new BackendRefusal(`the dump could not be loaded: ${outcome.body}`)
  checkResult(JSON.parse(outcome.text) as readonly LoadResult[])
}
