import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** Forwards connections to a server, and simulates network failures. */
export class Connections implements AsyncDisposable {
  readonly #server: Server
  #pairs: [Socket, Socket][] = []
  /** Whether to drop responses. */
  dropsResponses = false
  /** Whether a response was dropped. */
  hasDropped = false

  readonly #path: string

  private constructor({ hostname, port, pathname }: URL) {
    this.#path = pathname
    this.#server = createServer((from) => {
      const to = connect(Number(port), hostname)
      from.on('data', (data) => to.write(data))
      to.on('data', (data) => {
        if (this.dropsResponses) this.hasDropped = true
        else from.write(data)
      })
      for (const [source, destination] of [
        [from, to],
        [to, from],
      ] as const) {
        source.on('end', () => destination.end())
        source.on('error', () => destination.destroy())
      }
      this.#pairs.push([from, to])
    })
  }

  static async open(target: string): Promise<Connections> {
    const connections = new Connections(new URL(target))
    await connections.listen()
    return connections
  }

  get #port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}${this.#path}`
  }

  async listen(port = 0): Promise<void> {
    this.#server.listen(port, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  /** Closes all connections, as a server does with idle ones. */
  closeAll(): void {
    for (const [from] of this.#pairs.splice(0)) from.end()
  }

  /** Resets all connections, as if the server had been killed. */
  reset(): void {
    for (const [from] of this.#pairs.splice(0)) from.resetAndDestroy()
  }

  /** Drops all connections silently, as a gateway does with idle ones: requests get no response, and no error. */
  dropSilently(): void {
    for (const [from, to] of this.#pairs.splice(0)) {
      from.removeAllListeners('data').resume()
      to.removeAllListeners('end').destroy()
    }
  }

  /** Resets all connections, and rejects new ones until the returned function is called. */
  resetAndStopListening(): () => Promise<void> {
    const port = this.#port
    this.#server.close()
    this.reset()
    return () => this.listen(port)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
    this.reset()
  }
}
