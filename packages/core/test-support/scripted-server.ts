import type http from 'node:http'
import { afterEach } from 'vitest'
import { TestHttpServer } from '../../../test/support/test-http-server.ts'
import { type Client, createClient } from '../src/client/client.ts'
import type { ClientConfig } from '../src/config.ts'
import { batchResponse, type ScriptedStep } from './scripted-batch.ts'

// Servers that respond incorrectly. Each test scripts its own.

export interface Received {
  readonly url: string
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
}
export type Script = (request: Received, response: http.ServerResponse, count: number) => void

export const cleanUp: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const task of cleanUp.splice(0).reverse()) await task()
})

/** Starts a server that responds as a test specifies, and creates a client for it. */
export async function scripted(
  script: Script,
  config: Partial<ClientConfig> = {},
): Promise<{ db: Client; received: Received[]; url: string }> {
  const received: Received[] = []
  const server = await new TestHttpServer().listen()
  server.http.on('request', (request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      const entry = { url: request.url ?? '', headers: request.headers, body }
      script(entry, response, received.push(entry))
    })
  })
  const { url } = server
  const db = createClient({ url, ...config })
  cleanUp.push(async () => {
    await db.close()
    await server.close()
  })
  return { db, received, url }
}

export const row = {
  cols: [{ name: 'a', decltype: null }],
  rows: [[{ type: 'integer', value: '1' }]],
  affected_row_count: 0,
  last_insert_rowid: null,
}
export const respond = (response: http.ServerResponse, body: unknown): void => {
  response.setHeader('content-type', 'application/json')
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}
export const executed = {
  baton: null,
  base_url: null,
  results: [
    { type: 'ok', response: { type: 'execute', result: row } },
    { type: 'ok', response: { type: 'close' } },
  ],
}
export const status =
  (code: number, text: string, type = 'text/plain'): Script =>
  (_, response) => {
    response.writeHead(code, { 'content-type': type })
    response.end(text)
  }

/** Responds with one row. */
export const answer: Script = (_, response) => respond(response, executed)
/** Never responds. */
export const noResponse: Script = () => {}
/** Breaks the connection. */
export const disconnect: Script = (_, response) => void response.destroy()
/** Runs the scripts one after another, and the last one for all further requests. */
export const inOrder =
  (...scripts: readonly [Script, ...Script[]]): Script =>
  (request, response, count) =>
    scripts[Math.min(count, scripts.length) - 1]?.(request, response, count)
/** Runs one of two scripts, depending on the body of the request. */
export const ifIncludes =
  (text: string, script: Script, otherwise: Script): Script =>
  (request, response, count) =>
    (request.body.includes(text) ? script : otherwise)(request, response, count)

/** A server with minimal streams: every step of a batch whose condition is true succeeds. */
export const streams =
  (more: (request: Received) => Record<string, unknown> = () => ({})): Script =>
  (request, response, count) => {
    const { requests } = JSON.parse(request.body) as {
      requests: { type: string; batch?: { steps: ScriptedStep[] } }[]
    }
    const results = requests.map(({ type, batch }) => ({
      type: 'ok',
      response: {
        type,
        ...(batch && { result: batchResponse(batch.steps, row) }),
        ...(type === 'execute' && { result: row }),
      },
    }))
    const closes = requests.at(-1)?.type === 'close'
    respond(response, { baton: closes ? null : `b${count}`, base_url: null, results, ...more(request) })
  }
