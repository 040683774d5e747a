import { randomUUID } from 'node:crypto'
import { type Client, type ClientConfig, createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'
import { afterAll, inject } from 'vitest'
import { CountingProxy } from './counting-proxy.ts'
import { dropEverything } from './drop-everything.ts'
import { TursodbServer } from './tursodb-server.ts'

/** A separate database on the server under test. */
export interface TestDatabase {
  readonly url: string
  readonly authToken?: string
  /** The URL and the token, as the configuration of a client. */
  readonly config: { readonly url: string; readonly authToken: string | undefined }
  /** Returns the number of HTTP requests for this database that have reached the server. */
  requestCount(): number
}

export interface TestServer {
  createDatabase(): Promise<TestDatabase>
}

const cleanUpTasks: (() => Promise<unknown>)[] = []
/**
 * Stops the servers that a test file has opened. Call it in a hook of the file, because a hook registered inside a hook never
 * runs.
 */
export async function closeTestServers(): Promise<void> {
  for (const task of cleanUpTasks.splice(0).reverse()) await task()
}
afterAll(closeTestServers)

/** Starts the server that this test run uses; it is stopped after the file, even if a hook started it. */
export async function openTestServer(): Promise<TestServer> {
  const target = inject('target')
  const openProxied = async (url: string, authToken?: string, host?: string): Promise<TestDatabase> => {
    const proxy = await CountingProxy.start(url, host)
    cleanUpTasks.push(() => proxy.close())
    const config = { url: proxy.url, authToken }
    return { url: proxy.url, ...(authToken && { authToken }), config, requestCount: () => proxy.requestCount }
  }

  if (target === 'embedded') {
    const server = await startLocalServer()
    cleanUpTasks.push(() => server.close())
    let count = 0
    return {
      async createDatabase() {
        const name = `test-${(count += 1)}`
        const database = await server.createDatabase(name)
        const config = { url: database.url, authToken: database.authToken }
        return { ...database, config, requestCount: () => server.requestCount(name) }
      },
    }
  }
  if (target === 'sqld') {
    return {
      async createDatabase() {
        const sqld = await startSqld({ namespaces: false })
        cleanUpTasks.push(() => sqld.close())
        return await openProxied(sqld.url)
      },
    }
  }
  if (target === 'tursodb') {
    return {
      async createDatabase() {
        const server = await TursodbServer.start()
        cleanUpTasks.push(() => server.close())
        const { url } = server
        return { url, config: { url, authToken: undefined }, requestCount: () => server.requestCount() }
      },
    }
  }
  if (target === 'container') {
    const { url, adminUrl, adminKey } = inject('libsqlContainer')
    return {
      async createDatabase() {
        const name = `test-${randomUUID()}`
        const created = await fetch(`${adminUrl}/v1/namespaces/${name}/create`, {
          method: 'POST',
          headers: { authorization: `basic ${adminKey}`, 'content-type': 'application/json' },
          body: '{}',
        })
        if (!created.ok)
          throw new Error(`creating the database ${name} failed: ${created.status} ${await created.text()}`)
        return await openProxied(url, undefined, `${name}.localhost`)
      },
    }
  }
  const url = process.env['TEST_DATABASE_URL'] as string
  const authToken = process.env['TEST_AUTH_TOKEN']
  return {
    async createDatabase() {
      await dropEverything(url, authToken)
      return await openProxied(url, authToken)
    },
  }
}

/** Creates a database for the calling test file, and a client of it, which is closed after the file. */
export async function openTestClient(
  options: Partial<ClientConfig> = {},
): Promise<{ readonly database: TestDatabase; readonly db: Client }> {
  const database = await (await openTestServer()).createDatabase()
  const db = createClient({ ...database.config, ...options })
  afterAll(() => db.close())
  return { database, db }
}
