import { type Client, type ClientConfig, createClient } from '@batonsql/core'
import { afterAll, beforeEach } from 'vitest'
import { TursodbServer, tursodbProblem } from './tursodb-server.ts'

const servers: TursodbServer[] = []
const clients: Client[] = []
const stopServers = async (): Promise<void> => {
  for (const client of clients.splice(0)) await client.close()
  for (const server of servers.splice(0)) await server.close()
}
afterAll(stopServers)

/**
 * Skips the tests of a file if the engine has no build for this platform, with the reason in the summary, and stops its
 * servers afterwards.
 */
export function requireTursodb(): void {
  // files that share a process import this module only once
  afterAll(stopServers)
  beforeEach((context) => {
    if (tursodbProblem !== null) context.skip(tursodbProblem)
  })
}

/** Starts a server with an empty database of Turso's engine. It is stopped after the tests of the file. */
export async function startTursodb(): Promise<TursodbServer> {
  const server = await TursodbServer.start()
  servers.push(server)
  return server
}

/** Starts a server, runs statements, and opens a client. Both are closed after the tests of the file. */
export async function openTursodb(
  statements: readonly string[] = [],
  config: Partial<ClientConfig> = {},
): Promise<{ readonly server: TursodbServer; readonly db: Client }> {
  const server = await startTursodb()
  const db = createClient({ url: server.url, ...config })
  clients.push(db)
  for (const statement of statements) await db.execute(statement)
  return { server, db }
}
