import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { TestHttpServer } from './test-http-server.ts'

interface Operation {
  readonly type: string
  readonly stmt?: { readonly sql: string }
}

/** A proxy that supports only `execute` and `close` on `/v2/pipeline`. */
export class ExecuteOnlyProxy extends TestHttpServer {
  /** The statements of each forwarded request; `close` for an operation that closes the stream. */
  readonly requests: string[][] = []

  static async start(target: string): Promise<ExecuteOnlyProxy> {
    const proxy = new ExecuteOnlyProxy()
    proxy.http.on('request', (request, response) => void proxy.#respond(target, request, response))
    return await proxy.listen()
  }

  async #respond(target: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request)
    if (request.url !== '/v2/pipeline') return void response.writeHead(404).end('not found')
    const { requests } = JSON.parse(body) as { requests: Operation[] }
    const unsupported = requests.find(({ type }) => type !== 'execute' && type !== 'close')
    if (unsupported) {
      const error = `unknown variant \`${unsupported.type}\`, expected \`execute\` or \`close\``
      return void response.writeHead(400).end(JSON.stringify({ error }))
    }
    this.requests.push(requests.map(({ stmt, type }) => stmt?.sql ?? type))
    const { authorization } = request.headers
    const reply = await fetch(new URL('v2/pipeline', `${target.replace(/\/$/, '')}/`), {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
    })
    response.writeHead(reply.status, { 'content-type': 'application/json' }).end(await reply.text())
  }
}
