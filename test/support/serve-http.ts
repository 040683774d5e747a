import type { RequestListener } from 'node:http'
import { onTestFinished } from 'vitest'
import { TestHttpServer } from './test-http-server.ts'

/** Starts a server that is closed after the test. */
export async function serveHttp(listener: RequestListener): Promise<TestHttpServer> {
  const server = await new TestHttpServer().listen()
  server.http.on('request', listener)
  onTestFinished(() => server.close())
  return server
}
