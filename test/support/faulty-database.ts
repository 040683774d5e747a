import { type Client, createClient } from '@batonsql/core'
import { afterAll, beforeEach } from 'vitest'
import { FaultProxy, NO_FAULT } from './fault-proxy.ts'
import { openTestServer, type TestDatabase, type TestServer } from './test-server.ts'

/** Returns the size or the time limit of a run, which an environment variable can override. */
export const runSize = (variable: string, defaultSize: number): number =>
  Number(process.env[variable] ?? defaultSize)

interface FaultyDatabase {
  readonly server: TestServer
  readonly database: TestDatabase
  /** A client that connects to the database directly. */
  readonly direct: Client
  /** The proxy in front of the database for all other clients. At the beginning of each test, it forwards everything. */
  readonly proxy: FaultProxy
}

/** Creates a database behind a proxy for the calling test file. */
export async function openFaultyDatabase(): Promise<FaultyDatabase> {
  const server = await openTestServer()
  const database = await server.createDatabase()
  const direct = createClient(database.config)
  const proxy = await FaultProxy.start(database.url)
  afterAll(async () => {
    await direct.close()
    await proxy.close()
  })
  beforeEach(() => {
    proxy.next = () => NO_FAULT
    proxy.hidesV3 = false
  })
  return { server, database, direct, proxy }
}

/** Creates a client whose responses to matching requests are delayed until the test releases them. */
export function createClientWithHeldResponses(
  database: TestDatabase,
  proxy: FaultProxy,
  isHeld = (body: string): boolean => !body.includes('"close"'),
) {
  const { promise: until, resolve: releaseResponse } = Promise.withResolvers<void>()
  const arrived = Promise.withResolvers<void>()
  proxy.next = (body) => {
    if (!isHeld(body)) return NO_FAULT
    arrived.resolve()
    return { kind: 'hold-response', until }
  }
  const db = createClient({ ...database.config, url: proxy.url })
  return { db, releaseResponse, arrived: arrived.promise }
}
