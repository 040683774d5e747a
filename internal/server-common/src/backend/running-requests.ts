import { Readable } from 'node:stream'
import { errorResponse, type ServiceResponse } from '../http/service-request.ts'
import type { DatabaseId, RevokedAccess } from './backend.ts'

/** How long a request that may write may take to finish after its access was revoked. */
const FINISH_MS = 2_000
/** How long an aborted request may take to end. */
const ABORT_MS = 1_000

const ACCESS_ENDED = 'access to the database was revoked'

const NEVER = (): boolean => false

/** A request of a client to a database, until its response was sent and the engine has finished with it. */
export class RunningRequest {
  readonly #controller = new AbortController()
  readonly #client: AbortSignal
  readonly #remove: (request: RunningRequest) => void
  readonly #leave = (): void => this.#controller.abort(this.#client.reason)
  #holds = 1
  #body: Readable | null = null
  #waiting: (() => void)[] = []
  #isAborted = false
  #isEnding = false
  /** Whether it may still write. None of it is executed before a back end sets this. */
  mayWrite: () => boolean = NEVER
  /** Whether its sender has write access, so that its stream may have written before. */
  hasWriteAccess = false
  /** Whether its body is being received: none of it was executed, and its access is checked again afterwards. */
  isReceiving = false
  /** Other databases that it may read. */
  attached: readonly string[] = []
  /** Aborts what continues without its client, because the engine is about to be stopped. */
  onForced: () => void = () => {}

  /** Created only by {@link RunningRequests}. */
  constructor(client: AbortSignal, remove: (request: RunningRequest) => void) {
    this.#client = client
    this.#remove = remove
    if (client.aborted) this.#leave()
    else client.addEventListener('abort', this.#leave, { once: true })
  }

  /** Aborts when the client leaves, and when the request is aborted. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Whether its access was revoked, so that its stream must not be continued. */
  get isEnding(): boolean {
    return this.#isEnding
  }

  get isAborted(): boolean {
    return this.#isAborted
  }

  /** Keeps the request running until a matching `release`. */
  hold(): void {
    this.#holds += 1
  }

  release(): void {
    this.#holds -= 1
    if (this.#holds > 0) return
    this.#client.removeEventListener('abort', this.#leave)
    this.#remove(this)
    for (const ended of this.#waiting) ended()
  }

  /** Returns the response to send. A body keeps the request running; an aborted request returns an error. */
  respond(response: ServiceResponse): ServiceResponse {
    const { body } = response
    if (body instanceof Readable) {
      body.on('error', () => {}) // handled by its reader
      if (this.#isAborted) body.destroy()
      if (!body.closed) {
        this.#body = body
        this.hold()
        body.once('close', () => this.release())
      }
    }
    return this.#isAborted ? accessEnded() : response
  }

  /** Marks its access as revoked. @returns whether it has begun */
  beginEnding(): boolean {
    this.#isEnding = true
    return !this.isReceiving
  }

  /** Aborts the request: sends nothing more to the client, and begins nothing more. */
  abort(): void {
    this.#isAborted = true
    this.#controller.abort()
    // with an error, because a pipe does not detect that a body was destroyed without one before its end
    this.#body?.destroy(new Error(ACCESS_ENDED))
  }

  async ended(): Promise<void> {
    if (this.#holds > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}

/** Returns the response to an aborted request. */
export function accessEnded(): ServiceResponse {
  return errorResponse(
    502,
    `${ACCESS_ENDED} while this request ran: it is unknown whether the request took effect`,
  )
}

/** Returns the response to a request whose access was revoked while its body was being received. */
export function accessEndedBefore(): ServiceResponse {
  return errorResponse(403, `${ACCESS_ENDED} before this request ran`)
}

/** The requests in flight, so that they can be aborted when their access is revoked. */
export class RunningRequests {
  readonly #requests = new Map<DatabaseId, Set<RunningRequest>>()

  /** Must be called before access is checked, without an await in between. */
  begin(id: DatabaseId, client: AbortSignal): RunningRequest {
    let requests = this.#requests.get(id)
    if (requests === undefined) {
      requests = new Set()
      this.#requests.set(id, requests)
    }
    const request = new RunningRequest(client, (ended) => this.#remove(id, ended))
    requests.add(request)
    return request
  }

  /**
   * Aborts requests whose access was revoked. Read-only requests are aborted at once; those that may write are aborted if they have
   * not finished after a grace period.
   * @returns those that have not ended in time
   */
  async end(id: DatabaseId, access: RevokedAccess): Promise<readonly RunningRequest[]> {
    const requests = this.#of(id)
    const writers = new Set(requests.filter((request) => request.mayWrite()))
    // a stream that may have written is not continued, even after a read-only request
    const ended = requests.filter(
      (request) =>
        (access === 'all' || request.hasWriteAccess || writers.has(request)) && request.beginEnding(),
    )
    const ending = access === 'all' ? ended : ended.filter((request) => writers.has(request))
    for (const request of ending) if (!writers.has(request)) request.abort()
    const unfinished = await stillRunning(ending, FINISH_MS)
    for (const request of unfinished) request.abort()
    return await stillRunning(unfinished, ABORT_MS)
  }

  /** Aborts all requests of a database at once. */
  abort(id: DatabaseId): void {
    for (const request of this.#of(id)) {
      if (!request.beginEnding()) continue
      request.abort()
      request.onForced()
    }
  }

  /** Aborts the requests of other databases that have this one attached, and waits for them to end. */
  async abortAttaching(id: DatabaseId): Promise<void> {
    const requests = this.#all().filter(({ attached }) => attached.includes(id))
    for (const request of requests) request.abort()
    await stillRunning(requests, ABORT_MS)
  }

  /** Aborts the requests of all databases, and waits for them to end. */
  async abortAll(): Promise<void> {
    const requests = this.#all()
    for (const request of requests) request.abort()
    await stillRunning(requests, ABORT_MS)
  }

  #all(): readonly RunningRequest[] {
    return [...this.#requests.values()].flatMap((each) => [...each])
  }

  #of(id: DatabaseId): readonly RunningRequest[] {
    return [...(this.#requests.get(id) ?? [])]
  }

  #remove(id: DatabaseId, request: RunningRequest): void {
    const requests = this.#requests.get(id)
    requests?.delete(request)
    if (requests?.size === 0) this.#requests.delete(id)
  }
}

/** Waits for requests to end, with a time limit. @returns those that have not */
async function stillRunning(
  requests: readonly RunningRequest[],
  limitMs: number,
): Promise<readonly RunningRequest[]> {
  const running = new Set(requests)
  const ended = Promise.all(requests.map((request) => request.ended().then(() => running.delete(request))))
  await within(ended, limitMs)
  return [...running]
}

/** Waits for work, with a time limit. */
export async function within(work: Promise<unknown>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs)
  })
  await Promise.race([work, limit]).finally(() => clearTimeout(timer))
}
