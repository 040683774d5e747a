import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'
import { GenericContainer, Wait } from 'testcontainers'
import { afterAll, inject } from 'vitest'
import { CountingProxy } from './counting-proxy.ts'
import { dropEverything } from './drop-everything.ts'

/** A database of its own on the server under test. */
export interface TestDatabase {
  readonly url: string
  readonly authToken?: string
  /** The same as settings for a client. */
  readonly config: { readonly url: string; readonly authToken: string | undefined }
  /** HTTP requests that have reached the server for this database. */
  requestCount(): number
}

export interface TestServer {
  createDatabase(): Promise<TestDatabase>
}

const LIBSQL_SERVER_IMAGE = 'ghcr.io/tursodatabase/libsql-server:v0.24.32'

/** Starts the server that this run of the tests is about; it is stopped after the file. */
export async function openTestServer(): Promise<TestServer> {
  const target = inject('target')
  const cleanUp: (() => Promise<unknown>)[] = []
  afterAll(async () => {
    for (const task of cleanUp.reverse()) await task()
  })
  const throughProxy = async (url: string, authToken?: string): Promise<TestDatabase> => {
    const proxy = await CountingProxy.start(url)
    cleanUp.push(() => proxy.close())
    const config = { url: proxy.url, authToken }
    return { url: proxy.url, ...(authToken && { authToken }), config, requestCount: () => proxy.requestCount }
  }

  if (target === 'embedded') {
    const server = await startLocalServer()
    cleanUp.push(() => server.close())
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
        cleanUp.push(() => sqld.close())
        return await throughProxy(sqld.url)
      },
    }
  }
  let url = process.env['TEST_DATABASE_URL'] as string
  const authToken = target === 'url' ? process.env['TEST_AUTH_TOKEN'] : undefined
  if (target === 'container') {
    const container = await new GenericContainer(LIBSQL_SERVER_IMAGE)
      .withExposedPorts(8080)
      .withWaitStrategy(Wait.forHttp('/health', 8080))
      .start()
    cleanUp.push(() => container.stop())
    url = `http://${container.getHost()}:${container.getMappedPort(8080)}`
  }
  return {
    async createDatabase() {
      await dropEverything(url, authToken)
      return await throughProxy(url, authToken)
    },
  }
}
