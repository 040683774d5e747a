import { Readable } from 'node:stream'
import {
  LOST_CONNECTION,
  readBytes,
  releaseBodyMemory,
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

/** A statement in a request body, or a request to store its SQL in the stream: `@libsql/client` refers to stored SQL by number. */
interface SqlEntry {
  readonly type?: string
  readonly sql?: string
  readonly sql_id?: number
}

type StoredSql = Map<number | undefined, string>

interface ParsedBody {
  readonly body: Body
  readonly storedSql: StoredSql
}

interface DatabaseFailures {
  readonly active: Set<ActiveFailure>
  /** The SQL that streams have stored, keyed by the baton of each stream's next request. */
  readonly storedSql: Map<string, StoredSql>
}

class ActiveFailure implements Failure {
  readonly #kind: FailureKind
  readonly #options: FailureOptions
  readonly #onRemove: (failure: ActiveFailure) => void
  readonly #end = new AbortController()
  #matches = 0
  #count = 0

  /** @throws TypeError for an unknown kind or option */
  constructor(kind: FailureKind, options: FailureOptions, onRemove: (failure: ActiveFailure) => void) {
    checkFailure(kind, options)
    this.#kind = kind
    this.#options = options
    this.#onRemove = onRemove
  }

  count(): number {
    return this.#count
  }

  remove(): void {
    this.#onRemove(this)
  }

  /** Ends requests that wait for a response. */
  end(): void {
    this.#end.abort()
  }

  /** Whether a request fails; counts it if it is one of those that may. */
  applies(baton: string | null, statements: readonly string[]): boolean {
    const { sql, on = 1, always = false } = this.#options
    if (this.#kind === 'lost-transaction' && baton === null) return false
    const mayFail = (text: string): boolean =>
      (sql === undefined || text.search(sql) >= 0) && !(this.#kind === 'busy' && isRollback(text))
    if (!statements.some(mayFail)) return false
    this.#matches += 1
    const fails = always ? this.#matches >= on : this.#matches === on
    if (fails) this.#count += 1
    return fails
  }

  /** Responds to a request that fails. */
  async respond(
    request: ServiceRequest,
    { body, storedSql }: ParsedBody,
    handle: Handle,
  ): Promise<ServiceResponse> {
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
        return await respondBusy(request, { body, storedSql }, handle)
      case 'no-response':
        await untilAborted(AbortSignal.any([request.controller.signal, this.#end.signal]))
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
  readonly #failures = new Map<Id, DatabaseFailures>()

  /** Makes requests to a database fail until the failure is removed. @throws TypeError for an unknown kind or option */
  add(id: Id, kind: FailureKind, options: FailureOptions): Failure {
    const failure = new ActiveFailure(kind, options, (removed) => {
      const failures = this.#failures.get(id)
      failures?.active.delete(removed)
      if (failures?.active.size === 0) this.#failures.delete(id)
    })
    const failures = this.#failures.get(id) ?? { active: new Set(), storedSql: new Map() }
    failures.active.add(failure)
    this.#failures.set(id, failures)
    return failure
  }

  forget(id: Id): void {
    for (const failure of this.#failures.get(id)?.active ?? []) failure.end()
    this.#failures.delete(id)
  }

  /** Handles a request, unless it fails. */
  async handle(id: Id, request: ServiceRequest, handle: Handle): Promise<ServiceResponse> {
    const failures = this.#failures.get(id)
    if (failures === undefined || !PATH.test(request.path)) return await handle(request)
    const bytes = await readBytes(request.body)
    const replacedRequest = { ...request, body: Readable.from([bytes]) }
    const body = parse(bytes.toString('utf8'))
    const baton = body?.baton ?? null
    const storedSql: StoredSql = (baton !== null && failures.storedSql.get(baton)) || new Map()
    const statements = readStatements(body, storedSql)
    // each failure counts the request, even if another one applies
    const [failure] = [...failures.active].filter((candidate) => candidate.applies(baton, statements))
    try {
      const response = await (failure === undefined || body === null
        ? handle(replacedRequest)
        : failure.respond(replacedRequest, { body, storedSql }, handle))
      if (storedSql.size === 0) return response
      const text = await readResponse(response)
      // the first line of a cursor has the baton
      const nextBaton = parse(text.split('\n', 1)[0])?.baton ?? null
      if (nextBaton !== null) failures.storedSql.set(nextBaton, storedSql)
      return { ...response, body: text }
    } finally {
      releaseBodyMemory(replacedRequest.body)
    }
  }
}

/** Parses a request or a response. @returns null if it is malformed */
function parse(text = ''): Body | null {
  try {
    return JSON.parse(text) as Body
  } catch {
    return null
  }
}

/**
 * Returns the SQL of the statements in a request, and records the SQL that the request stores. The result has an empty string for
 * SQL that was stored before the failure began.
 */
function readStatements(body: Body | null, storedSql: StoredSql): string[] {
  const statements: string[] = []
  JSON.stringify(body, (_, value: unknown) => {
    const { type, sql, sql_id: id } = (value ?? {}) as SqlEntry
    if (type === 'store_sql') storedSql.set(id, String(sql))
    else if (isStatement(value)) statements.push(value.sql ?? storedSql.get(value.sql_id) ?? '')
    return value
  })
  return statements
}

function isStatement(value: unknown): value is SqlEntry {
  const { type, sql, sql_id: id } = (value ?? {}) as SqlEntry
  return type !== 'store_sql' && type !== 'close_sql' && (typeof sql === 'string' || typeof id === 'number')
}

const isRollback = (sql: string): boolean => /^\s*rollback/i.test(sql)

/**
 * Responds that each statement is busy, except ROLLBACK. The server runs others in their place, so that it evaluates the conditions of
 * a batch and keeps the stream open, as with a real lock.
 */
async function respondBusy(
  request: ServiceRequest,
  { body, storedSql }: ParsedBody,
  handle: Handle,
): Promise<ServiceResponse> {
  const text = JSON.stringify(body, (_, value: unknown) => {
    if (!isStatement(value)) return value
    const { sql, sql_id: id } = value
    if (isRollback(sql ?? storedSql.get(id) ?? '')) return value
    return { ...value, sql: FAILING_SQL, sql_id: undefined }
  })
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
