import type { Fetch } from '@batonsql/core'
import type { ClientPlan, Fault, History } from './history.ts'
import { DisconnectedError } from './model-database.ts'
import type { ServerRequest } from './model-program.ts'
import type { ModelServer, ServerResponse } from './model-server.ts'
import { type World, waitForMicrotasks } from './world.ts'

/** How long requests and responses are in flight, in ms; mostly equal, so that they coincide. */
const DELAYS = [1, 1, 1, 1, 2, 2, 0, 5, 20, 100]
const NEVER = new Promise<never>(() => {})

/** A request as observed in flight, for the checks. */
export interface ObservedRequest {
  readonly client: number
  readonly path: string
  readonly body: string
  readonly at: number
  readonly fault: Fault | null
  /** When its `fetch` settled. */
  settledAt: number
  /** Whether Turso's engine rejected it without running any of it; if so, it may be sent again. */
  isRejected: boolean
}

type Reply = Awaited<ReturnType<Fetch>>

/** The network between clients and server. Every request has a number, which determines its faults and delays. */
export class Network {
  readonly requests: ObservedRequest[] = []
  /** Tags of the statements in requests that were sent twice. */
  readonly repeated = new Set<number>()
  /** The tags in `repeated` whose request did not continue a stream. */
  readonly repeatedWithoutBaton = new Set<number>()
  /** The tags in `repeatedWithoutBaton` whose second copy was rejected because of the write lock. */
  readonly lockedCopies = new Set<number>()
  /** Whether faults and delays are no longer injected. */
  isFaultFree = false
  /** Requests that were sent, and whose `fetch` has not settled. */
  inFlight = 0
  readonly #world: World
  readonly #server: ModelServer
  readonly #faults: ReadonlyMap<number, Fault>
  readonly #seed: number

  constructor(world: World, server: ModelServer, { seed, faults }: History) {
    this.#world = world
    this.#server = server
    this.#seed = seed
    this.#faults = new Map(faults.map((fault) => [fault.request, fault]))
  }

  /** Number of faults that have occurred. */
  get faultCount(): number {
    return this.requests.filter(({ fault }) => fault !== null).length
  }

  /** Creates the `fetch` of a client. */
  createFetch(client: number, plan: ClientPlan): Fetch {
    return (url, { headers, body = '', signal }) => {
      const number = this.requests.length
      const { pathname } = new URL(url)
      const fault = (!this.isFaultFree && this.#faults.get(number)) || null
      const request: ObservedRequest = {
        client,
        path: pathname,
        body,
        at: this.#world.now,
        fault,
        settledAt: Infinity,
        isRejected: false,
      }
      this.requests.push(request)
      const token = headers['authorization']?.replace('Bearer ', '') ?? null
      const exchange = new Exchange(this, number, fault, plan.ignoresAbort ? null : signal)
      this.inFlight += 1
      return exchange.run({ path: pathname, token, body }).finally(() => {
        this.inFlight -= 1
        request.settledAt = this.#world.now
      })
    }
  }

  /** Chooses a whole number below `choices`, the same one in every run of the history. */
  choose(number: number, salt: number, choices: number): number {
    if (this.#seed === 0) return 0
    let hash = Math.imul(this.#seed ^ (number * 0x9e3779b1), 0x85ebca6b) ^ Math.imul(salt + 1, 0xc2b2ae35)
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
    hash = Math.imul(hash ^ (hash >>> 12), 0x297a2d39)
    return ((hash ^ (hash >>> 15)) >>> 0) % choices
  }

  /** Waits for the network delay of a request or response. */
  async delay(number: number, leg: number): Promise<void> {
    if (this.isFaultFree) return
    const ms = DELAYS[this.choose(number, leg, DELAYS.length)] as number
    if (ms > 0) await this.#world.sleep(ms)
    await waitForMicrotasks(this.choose(number, leg + 1, 6))
  }

  sleep(ms: number): Promise<void> {
    return this.#world.sleep(ms)
  }

  handle(request: ServerRequest): Promise<ServerResponse> {
    return this.#server.handle(request)
  }
}

/** One request in flight, and its response. */
class Exchange {
  readonly #network: Network
  readonly #number: number
  readonly #fault: Fault | null
  readonly #signal: AbortSignal | null

  constructor(network: Network, number: number, fault: Fault | null, signal: AbortSignal | null) {
    this.#network = network
    this.#number = number
    this.#fault = fault
    this.#signal = signal
  }

  /** Settles as `fetch` does: immediately if its signal is aborted. */
  run(request: ServerRequest): Promise<Reply> {
    return this.#untilAborted(this.#exchange(request))
  }

  #untilAborted<T>(work: Promise<T>): Promise<T> {
    const signal = this.#signal
    if (!signal) return work
    if (signal.aborted) {
      work.catch(() => {})
      return Promise.reject(signal.reason as Error)
    }
    return new Promise((resolve, reject) => {
      const abort = (): void => reject(signal.reason as Error)
      signal.addEventListener('abort', abort, { once: true })
      work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
    })
  }

  async #exchange(request: ServerRequest): Promise<Reply> {
    const network = this.#network
    const { kind, value = 0 } = this.#fault ?? { kind: null }
    await network.delay(this.#number, 1)
    // aborted in transit: half of these requests never arrive
    if (this.#signal?.aborted && network.choose(this.#number, 9, 2) === 0) return await NEVER
    if (kind === 'lost') throw new Error('connection reset before the request arrived')
    if (kind === 'lost silently') return await NEVER
    if (kind === 'refused') return textResponse(value, JSON.stringify({ error: 'refused in transit' }))
    if (kind === 'refused as html') return textResponse(value, '<html>refused in transit</html>')
    const sent = { ...request, isBusy: kind === 'busy', ...(kind === 'slow' && { statementMs: value }) }
    let reply: ServerResponse
    try {
      reply = await network.handle(sent)
      if (kind === 'repeated') reply = await this.#sendAgain(sent, reply)
    } catch (error) {
      if (error instanceof DisconnectedError)
        throw new Error('connection reset by the server', { cause: error })
      throw error
    }
    const { body } = reply
    const isRejected = /"message":"(?:database is locked|prepare failed: near "READONLY")/.test(
      body.replaceAll('\\"', '"'),
    )
    Object.assign(network.requests[this.#number] as ObservedRequest, { isRejected })
    await network.delay(this.#number, 3)
    if (kind === 'late') await network.sleep(value)
    if (/^(response lost|no response|refused after|foreign response)$/.test(kind ?? ''))
      void drain(reply.lines)
    if (kind === 'response lost') throw new Error('connection reset before the response arrived')
    if (kind === 'no response') return await NEVER
    if (kind === 'refused after') return textResponse(value, JSON.stringify({ error: 'gateway' }))
    if (kind === 'foreign response') return textResponse(200, makeForeignBody(reply.body, value))
    return this.#toReply(reply)
  }

  async #sendAgain(request: ServerRequest, first: ServerResponse): Promise<ServerResponse> {
    const tags = Array.from(request.body.matchAll(/(?<=\(|"value":")\d+/g), Number)
    const { repeated, repeatedWithoutBaton, lockedCopies } = this.#network
    const hasBaton = request.body.startsWith('{"baton":')
    for (const tag of tags) {
      repeated.add(tag)
      if (!hasBaton) repeatedWithoutBaton.add(tag)
    }
    if (first.lines) for await (const _ of first.lines);
    const second = await this.#network.handle(request)
    if (!hasBaton && second.body.includes('database is locked')) for (const tag of tags) lockedCopies.add(tag)
    return second
  }

  #toReply({ status, body, lines }: ServerResponse): Reply {
    const { kind, value = 0.5 } = this.#fault ?? { kind: null }
    const isTruncated = kind === 'truncated' || kind === 'truncated silently'
    const part = isTruncated ? body.slice(0, Math.floor(body.length * value)) : body
    const text = async (): Promise<string> => {
      await waitForMicrotasks(this.#network.choose(this.#number, 5, 4))
      if (kind === 'truncated') throw new Error('terminated')
      return part
    }
    const reply = { status, headers: { get: () => null }, text: () => this.#untilAborted(text()) }
    return { ...reply, body: lines ? this.#stream(lines) : toStream(part, kind === 'truncated') }
  }

  /** Sends the lines of a cursor, a few at a time, as they are read. */
  #stream(lines: AsyncGenerator<string, void, undefined>): ReadableStream<Uint8Array> {
    const network = this.#network
    const { kind, value = 0.5 } = this.#fault ?? { kind: null }
    const maxLines = [1, 2, 3, 100][network.choose(this.#number, 6, 4)] as number
    const truncateAt =
      kind === 'truncated' || kind === 'truncated silently' ? Math.floor(value * 10) : Infinity
    let count = 0
    // return() on a generator that has not started would skip its body, which executes the cursor on the server
    const end = (): Promise<unknown> => (count === 0 ? drain(lines) : lines.return())
    const encoder = new TextEncoder()
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      let text = ''
      for (let index = 0; index < maxLines; index++) {
        const line = count >= truncateAt ? { done: true as const, value: undefined } : await lines.next()
        if (line.done) {
          if (text) controller.enqueue(encoder.encode(text))
          if (count >= truncateAt) await end()
          if (kind === 'truncated') controller.error(new Error('terminated'))
          else controller.close()
          return
        }
        text += line.value
        count += 1
      }
      await network.delay(this.#number, 20 + count)
      controller.enqueue(encoder.encode(text))
    }
    const cancel = async (): Promise<void> => {
      await end()
    }
    const stream = new ReadableStream({ pull, cancel }, { highWaterMark: 0 })
    // the client may have disconnected while the response was in flight
    if (this.#signal?.aborted) void end()
    else this.#signal?.addEventListener('abort', () => void end(), { once: true })
    return stream
  }
}

/** Runs a cursor to its end, as the server does even if its rows do not arrive: nothing else ends its transaction. */
async function drain(lines: ServerResponse['lines']): Promise<void> {
  try {
    for await (const _ of lines ?? []);
  } catch {
    // the server has stopped
  }
}

function textResponse(status: number, body: string): Reply {
  return { status, headers: { get: () => null }, text: async () => body, body: toStream(body, false) }
}

function toStream(text: string, isTruncated: boolean): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text))
      if (isTruncated) controller.error(new Error('terminated'))
      else controller.close()
    },
  })
}

/** Returns JSON that does not belong to this request, as a proxy or another service may send it. */
function makeForeignBody(body: string, index: number): string {
  const results = (JSON.parse(body || '{}') as { results?: unknown[] }).results?.length ?? 0
  const repeatResult = (value: unknown): string =>
    JSON.stringify({ baton: null, base_url: null, results: Array.from({ length: results }, () => value) })
  const bodies = [
    '{}',
    '[]',
    'null',
    repeatResult(null),
    repeatResult({ type: 'ok' }),
    repeatResult({ type: 'error', error: {} }),
    repeatResult({ type: 'error', error: { message: 'mailbox full', code: 'NO_SUCH_CODE' } }),
    repeatResult({ type: 'ok', response: { type: 'batch', result: { step_results: [], step_errors: [] } } }),
    JSON.stringify({ baton: null, base_url: null, results: [] }),
    '{"error":"try again"}',
  ]
  return bodies[index % bodies.length] as string
}
