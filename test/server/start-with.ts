import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { closeOnError } from '../support/close-on-error.ts'
import { query } from './wire.ts'

/** Starts a server, and executes statements in its database. */
export async function startWith(...statements: readonly string[]): Promise<LocalServer> {
  const server = await startLocalServer()
  return await closeOnError(server, async () => {
    for (const sql of statements) await query(server.url, sql)
    return server
  })
}
