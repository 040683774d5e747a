import { Readable } from 'node:stream'
import { errorResponse, type ServiceResponse } from '../http/service-request.ts'
import type { DatabaseId, RevokedAccess } from './backend.ts'

/** How long a request that may write may take to finish after its access was revoked. */
const FINISH_LIMIT_MS = 2_000
/** How long an aborted request may take to end. */
const ABORT_LIMIT_MS = 1_000

const ACCESS_REVOKED = 'access to the database was revoked'

const NEVER = (): boolean => false

/**
 * A client's request to a database, until its response has been sent and the engine has finished with it. A back end
 *
 * 1. calls `RunningRequests.begin`, and then checks the request's access,
 * 2. sets `isReceiving` while it receives the body, and then checks the access again, and `isRevoked`,
 * 3. sets `mayWrite` before it executes anything,
 * 4. passes its response to `respond`; a streamed body keeps the request running until it is closed,
 * 5. calls `release`. Work that may outlast the response calls `hold` at its beginning and `release` at its end.
 *
 * The request ends with the last `release`; a revocation waits for that.
 */
export class RunningRequest {
  readonly #controller: AbortController
  readonly #remove: (request: RunningRequest) => void
  #holdCount = 1
  #body: Readable | null = null
  #endListeners: (() => void)[] = []
  #isAborted = false
  #isRevoked = false
  /** Whether it may still write. Nothing is executed before a back end sets this. */
  mayWrite: () => boolean = NEVER
  /** Whether its sender has write access, in which case its stream may already have written. */
  hasWriteAccess = false
  /** Whether its body is still being received: nothing has been executed yet, and its access is checked again afterwards. */
  isReceiving = false
  /** Other databases that it may read. */
  attached: readonly string[] = []
  /** Aborts work that continues without the client, because the engine is about to be stopped. */
  onForcedAbort: () => void = () => {}

  /** Created only by {@link RunningRequests}. */
  constructor(controller: AbortController, remove: (request: RunningRequest) => void) {
    this.#controller = controller
    this.#remove = remove
  }

  /** Aborted when the client disconnects or the request is aborted. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Whether its access was revoked; its stream must then not be continued. */
  get isRevoked(): boolean {
    return this.#isRevoked
  }

  get isAborted(): boolean {
    return this.#isAborted
  }

  /** Keeps the request running until a matching `release`. */
  hold(): void {
    this.#holdCount += 1
  }

  release(): void {
    this.#holdCount -= 1
    if (this.#holdCount > 0) return
    this.#remove(this)
    for (const onEnd of this.#endListeners) onEnd()
  }

  /** Returns the response to send, or an error if the request was aborted. A streamed body keeps the request running. */
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
    return this.#isAborted ? revokedResponse() : response
  }

  /** Marks its access as revoked. @returns whether its execution may have begun */
  markRevoked(): boolean {
    this.#isRevoked = true
    return !this.isReceiving
  }

  /** Aborts the request: nothing more is executed or sent to the client. */
  abort(): void {
    this.#isAborted = true
    this.#controller.abort()
    // a pipe does not detect that an incomplete body was destroyed without an error
    this.#body?.destroy(new Error(ACCESS_REVOKED))
  }

  async waitForEnd(): Promise<void> {
    if (this.#holdCount > 0) await new Promise<void>((resolve) => this.#endListeners.push(resolve))
  }
}

export function revokedResponse(): ServiceResponse {
  return errorResponse(
    502,
    `${ACCESS_REVOKED} while this request was running; it is unknown whether it was applied`,
  )
}

/** Returns the response to a request whose access was revoked while its body was being received. */
export function revokedBeforeStartResponse(): ServiceResponse {
  return errorResponse(403, `${ACCESS_REVOKED} before this request started`)
}

/** Tracks the requests in flight, so that they can be aborted when their access is revoked. */
export class RunningRequests {
  readonly #requests = new Map<DatabaseId, Set<RunningRequest>>()

  /** Tracks a new request. Must be called before access is checked, without an await in between. */
  begin(id: DatabaseId, controller: AbortController): RunningRequest {
    let requests = this.#requests.get(id)
    if (requests === undefined) {
      requests = new Set()
      this.#requests.set(id, requests)
    }
    const request = new RunningRequest(controller, (finished) => this.#remove(id, finished))
    requests.add(request)
    return request
  }

  /**
   * Aborts requests whose access was revoked. Read-only requests are aborted at once; those that may write are aborted if they have
   * not finished after a grace period.
   * @returns those that have not ended in time
   */
  async revoke(id: DatabaseId, access: RevokedAccess): Promise<readonly RunningRequest[]> {
    const requests = this.#getRequests(id)
    const writers = new Set(requests.filter((request) => request.mayWrite()))
    // a stream that may have written is not continued, even after a read-only request
    const revoked = requests.filter(
      (request) =>
        (access === 'all' || request.hasWriteAccess || writers.has(request)) && request.markRevoked(),
    )
    const affected = access === 'all' ? revoked : revoked.filter((request) => writers.has(request))
    for (const request of affected) if (!writers.has(request)) request.abort()
    const unfinished = await waitUntilEnded(affected, FINISH_LIMIT_MS)
    for (const request of unfinished) request.abort()
    return await waitUntilEnded(unfinished, ABORT_LIMIT_MS)
  }

  abort(id: DatabaseId): void {
    for (const request of this.#getRequests(id)) {
      if (!request.markRevoked()) continue
      request.abort()
      request.onForcedAbort()
    }
  }

  /** Aborts the requests to other databases that have this one attached, and waits for them to end. */
  async abortAttaching(id: DatabaseId): Promise<void> {
    const requests = this.#getAllRequests().filter(({ attached }) => attached.includes(id))
    for (const request of requests) request.abort()
    await waitUntilEnded(requests, ABORT_LIMIT_MS)
  }

  /** Aborts the requests to all databases, and waits for them to end. */
  async abortAll(): Promise<void> {
    const requests = this.#getAllRequests()
    for (const request of requests) request.abort()
    await waitUntilEnded(requests, ABORT_LIMIT_MS)
  }

  #getAllRequests(): readonly RunningRequest[] {
    return [...this.#requests.values()].flatMap((requests) => [...requests])
  }

  #getRequests(id: DatabaseId): readonly RunningRequest[] {
    return [...(this.#requests.get(id) ?? [])]
  }

  #remove(id: DatabaseId, request: RunningRequest): void {
    const requests = this.#requests.get(id)
    requests?.delete(request)
    if (requests?.size === 0) this.#requests.delete(id)
  }
}

/** Waits for requests to end, with a time limit. @returns those that have not */
async function waitUntilEnded(
  requests: readonly RunningRequest[],
  limitMs: number,
): Promise<readonly RunningRequest[]> {
  const running = new Set(requests)
  const ended = Promise.all(
    requests.map((request) => request.waitForEnd().then(() => running.delete(request))),
  )
  await withTimeLimit(ended, limitMs)
  return [...running]
}

export async function withTimeLimit(work: Promise<unknown>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs)
  })
  await Promise.race([work, limit]).finally(() => clearTimeout(timer))
}
