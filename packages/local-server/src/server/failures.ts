import { Readable } from 'node:stream'
import {
  LOST_CONNECTION,
  readBytes,
  releaseBody,
  type ServiceRequest,
  type ServiceResponse,
} from '@batonsql/server-common/http'
import { checkFailure, type Failure, type FailureKind, type FailureOptions } from './failure-options.ts'

const PATH = /^\/v[23]\/(?:pipeline|cursor)$/
const BUSY = JSON.stringify({ message: 'SQLite error: database is locked', code: 'SQLITE_BUSY' })
/** A statement that fails on every server, and its error. */
const FAILING_SQL = 'select baton_busy()'
const FAILING_SQL_ERROR = /\{"message":"[^"]*baton_busy[^{}]*\}/g

type Handle = (request: ServiceRequest) => Promise<ServiceResponse>

/** The part of a request body that matters here. */
interface Body {
  readonly baton?: string | null
}

class ActiveFailure implements Failure {
  readonly #kind: FailureKind
  readonly #options: FailureOptions
  readonly #onRemove: (failure: ActiveFailure) => void
  #matches = 0
  #count = 0

  /** @throws TypeError for an unknown kind or option */
  constructor(kind: FailureKind, options: FailureOptions, onRemove: (failure: ActiveFailure) => void) {
    checkFailure(kind, options)
    this.#kind = kind
    this.#options = options
    this.#onRemove = onRemove
  }

  get count(): number {
    return this.#count
  }

  remove(): void {
    this.#onRemove(this)
  }

  /** Whether a request fails; counts it if it is one of those that may. */
  applies(baton: string | null, statements: readonly string[]): boolean {
    const { sql, on = 1, always = false } = this.#options
    if (this.#kind === 'lost-transaction' && baton === null) return false
    if (!statements.some((text) => sql === undefined || text.search(sql) >= 0)) return false
    this.#matches += 1
    const fails = always ? this.#matches >= on : this.#matches === on
    if (fails) this.#count += 1
    return fails
  }

  /** Responds to a request that fails. */
  async respond(request: ServiceRequest, body: Body, handle: Handle): Promise<ServiceResponse> {
    switch (this.#kind) {
      case 'lost-request':
        return LOST_CONNECTION
      case 'lost-response':
        await readResponse(await handle(request))
        return LOST_CONNECTION
      case 'lost-transaction': {
        const closing = JSON.stringify({ baton: body.baton, requests: [{ type: 'close' }] })
        await handle(replaceBody({ ...request, path: '/v3/pipeline' }, closing))
        return await handle(request)
      }
      case 'busy':
        return await respondBusy(request, body, handle)
      case 'no-response':
        await untilAborted(request.controller.signal)
        return LOST_CONNECTION
      default:
        return {
          status: this.#kind,
          headers: { 'content-type': 'text/html' },
          // bytes, because the text of our own errors with status 500 is hidden
          body: Buffer.from(`<h1>Status ${this.#kind}, requested by a test</h1>`),
        }
    }
  }
}

/** The failures of a server, by database. */
export class Failures<Id> {
  readonly #failures = new Map<Id, ActiveFailure[]>()

  /** Makes requests to a database fail until the failure is removed. @throws TypeError for an unknown kind or option */
  add(id: Id, kind: FailureKind, options: FailureOptions): Failure {
    const onRemove = (removed: ActiveFailure): void => {
      const others = this.#failures.get(id)?.filter((other) => other !== removed) ?? []
      if (others.length > 0) this.#failures.set(id, others)
      else this.#failures.delete(id)
    }
    const failure = new ActiveFailure(kind, options, onRemove)
    this.#failures.set(id, [...(this.#failures.get(id) ?? []), failure])
    return failure
  }

  /** Removes the failures of a database. */
  forget(id: Id): void {
    this.#failures.delete(id)
  }

  /** Handles a request, unless it fails. */
  async handle(id: Id, request: ServiceRequest, handle: Handle): Promise<ServiceResponse> {
    const failures = this.#failures.get(id)
    if (failures === undefined || !PATH.test(request.path)) return await handle(request)
    const bytes = await readBytes(request.body)
    const replacedRequest = { ...request, body: Readable.from([bytes]) }
    const statements: string[] = []
    const body = parse(bytes.toString('utf8'), (sql) => statements.push(sql))
    // each failure counts the request, even if another one applies
    const [failure] = failures.filter((candidate) => candidate.applies(body?.baton ?? null, statements))
    try {
      if (failure === undefined || body === null) return await handle(replacedRequest)
      return await failure.respond(replacedRequest, body, handle)
    } finally {
      releaseBody(replacedRequest.body)
    }
  }
}

/** Parses a request body, and reports the SQL in it. @returns null if it is malformed */
function parse(text: string, onSql: (sql: string) => void): Body | null {
  try {
    return JSON.parse(text, (key, value: unknown) => {
      if (key === 'sql' && typeof value === 'string') onSql(value)
      return value
    }) as Body
  } catch {
    return null
  }
}

/**
 * Responds that each statement is busy, except ROLLBACK. The server runs others in their place, so that it evaluates the conditions of
 * a batch and keeps the stream open, as with a real lock.
 */
async function respondBusy(request: ServiceRequest, body: Body, handle: Handle): Promise<ServiceResponse> {
  const text = JSON.stringify(body, (key, value: unknown) =>
    key === 'sql' && typeof value === 'string' && !/^\s*rollback/i.test(value) ? FAILING_SQL : value,
  )
  const response = await handle(replaceBody(request, text))
  return { ...response, body: (await readResponse(response)).replaceAll(FAILING_SQL_ERROR, BUSY) }
}

function replaceBody(request: ServiceRequest, text: string): ServiceRequest {
  return { ...request, body: Readable.from([Buffer.from(text)]) }
}

async function readResponse({ body }: ServiceResponse): Promise<string> {
  return typeof body === 'string' ? body : String(Buffer.isBuffer(body) ? body : await readBytes(body))
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}
