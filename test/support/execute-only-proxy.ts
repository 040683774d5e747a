import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

interface Operation {
  readonly type: string
  readonly stmt?: { readonly sql: string }
}

/** A proxy that supports only `execute` and `close` on `/v2/pipeline`. */
export class ExecuteOnlyProxy {
  readonly #server: http.Server
  /** The statements of each forwarded request; `close` for an operation that closes the stream. */
  readonly requests: string[][] = []

  private constructor(server: http.Server) {
    this.#server = server
  }

  static async start(target: string): Promise<ExecuteOnlyProxy> {
    const server = http.createServer((request, response) => {
      void proxy.#respond(target, request, response)
    })
    const proxy = new ExecuteOnlyProxy(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async #respond(
    target: string,
    request: http.IncomingMessage,
    response: http.ServerResponse,
  ): Promise<void> {
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

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
