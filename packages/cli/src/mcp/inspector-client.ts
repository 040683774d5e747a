import { setTimeout as sleep } from 'node:timers/promises'
import { readLines } from '@batonsql/inspector/read-lines'
import { WireModel } from '@batonsql/inspector/wire-model'

/** Delay before the next connection, in ms. */
const RECONNECT_MS = 1_000

/**
 * Reads the events of a local server's request inspector. The server reports requests only while a client reads them, so this
 * connects at once, and reconnects after the server has been restarted.
 */
export class InspectorClient {
  readonly #url: string
  readonly #controller = new AbortController()
  #model = new WireModel()
  #since = 0
  /** Why the client is not connected; null while it is connected. */
  #problem: string | null = 'not connected yet'

  /** Connects to the inspector of a database's server; null for another machine, whose inspector only that machine can read. */
  static forUrl(url: string): InspectorClient | null {
    const { protocol, hostname, host } = new URL(url)
    const isLocal = protocol === 'http:' && /^((.+\.)?localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
    // the server rejects other names, such as that of a database in `domains`
    return isLocal
      ? new InspectorClient(`http://${host.replace(/^.+\.localhost/, 'localhost')}/_baton/events`)
      : null
  }

  private constructor(url: string) {
    this.#url = url
    void this.#run()
  }

  /**
   * Returns the requests reported so far, and when reporting began (in ms since the epoch).
   * @throws Error if the client is not connected
   */
  read(): { readonly model: WireModel; readonly since: number } {
    if (this.#problem !== null) throw new Error(`The request inspector cannot be read: ${this.#problem}`)
    this.#model.closeExpiredStreams(Date.now())
    return { model: this.#model, since: this.#since }
  }

  close(): void {
    this.#controller.abort()
  }

  async #run(): Promise<void> {
    const { signal } = this.#controller
    while (!signal.aborted) {
      this.#problem = await this.#follow(signal).catch((error: Error) => getMessage(error))
      await sleep(RECONNECT_MS, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  /** Reads events until the connection ends. @returns why it ended */
  async #follow(signal: AbortSignal): Promise<string> {
    const { status, body } = await fetch(this.#url, { signal })
    if (status !== 200 || body === null) {
      await body?.cancel()
      return `the server returned HTTP ${status} (\`baton dev\` has an inspector, but not with --auth, --platform-port or --no-inspector)`
    }
    for await (const line of readLines(body)) {
      if (line.startsWith('data: ')) this.#applyEvents(JSON.parse(line.slice('data: '.length)))
      this.#problem = null
    }
    return 'the server closed the connection'
  }

  #applyEvents(events: readonly { readonly type: string }[]): void {
    for (const event of events) {
      if (event.type === 'hello' || event.type === 'missed') {
        // without the missed events, a request might seem to wait for ever
        this.#model = new WireModel()
        this.#since = Date.now()
      } else if (event.type === 'request') this.#model.begin(event as never)
      else if (event.type === 'response') this.#model.end(event as never)
    }
  }
}

/** Returns the reason for a failure of `fetch`, whose own message is only "fetch failed". */
const getMessage = ({ message, cause }: Error): string => (cause instanceof Error ? cause.message : message)
