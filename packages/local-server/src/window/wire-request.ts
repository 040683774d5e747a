import { parseStatements, type Statement } from '../sql/statement.ts'

/** What a statement does to the transaction and the write lock of its stream. */
type Effect = 'begin' | 'begin-write' | 'write' | 'commit' | 'rollback' | 'other'

/** A statement as it is shown: its text, cut off where it is long, without arguments. */
export interface SeenStatement {
  readonly sql: string
  /** One for each statement of the text; empty for what is not run (`describe`). */
  readonly effects: readonly Effect[]
}

/** What a request asks for. */
export interface SeenRequest {
  /** What continues a stream; never shown. */
  readonly baton: string | null
  readonly statements: readonly SeenStatement[]
  /** How many statements are left out because there are too many. */
  readonly more: number
  /** How the answer is to be read: the number of statements of each request, in their order; null for a cursor. */
  readonly shape: readonly number[] | null
}

/** Statements of one request that are shown. */
const MAX_STATEMENTS = 50
/** Characters of a statement that are shown. */
const MAX_TEXT = 2_000
/** Characters of a text that is taken apart. */
const MAX_PARSED = 64 * 1_024

interface WireStatement {
  readonly sql?: unknown
  readonly sql_id?: unknown
}

interface WireRequest extends WireStatement {
  readonly type?: unknown
  readonly stmt?: WireStatement
  readonly batch?: WireBatch
}

interface WireBatch {
  readonly steps?: readonly { readonly stmt?: WireStatement }[]
}

interface WireBody {
  readonly baton?: unknown
  readonly requests?: readonly WireRequest[]
  readonly batch?: WireBatch
}

/** Texts that a client has stored on its stream, by their number. */
export type StoredTexts = Map<unknown, string>

/** Stored texts of one stream that are remembered. */
const MAX_STORED = 64

/** The baton of a body, to find its stream by; null for a new stream, and for what cannot be read. */
export function readBody(text: string): WireBody | null {
  try {
    const body: unknown = JSON.parse(text)
    return typeof body === 'object' && body !== null ? body : null
  } catch {
    return null
  }
}

/** Reads what a body asks for. Never throws: what is not understood is not shown. */
export function readRequest(body: WireBody, stored: StoredTexts): SeenRequest {
  const baton = typeof body.baton === 'string' ? body.baton : null
  const list: SeenStatement[] = []
  let count = 0
  const add = (statement: WireStatement | undefined, isRun = true): void => {
    count += 1
    if (list.length < MAX_STATEMENTS) list.push(seen(textOf(statement, stored), isRun))
  }
  const shape = Array.isArray(body.requests) ? body.requests.map((request) => readOne(request)) : null
  if (shape === null) for (const step of stepsOf(body.batch)) add(step?.stmt)
  return { baton, statements: list, more: count - list.length, shape }

  function readOne(request: WireRequest | null): number {
    const before = count
    switch (request?.type) {
      case 'execute':
        add(request.stmt)
        break
      case 'batch':
        for (const step of stepsOf(request.batch)) add(step?.stmt)
        break
      case 'sequence':
        add(request)
        break
      case 'describe':
        add(request, false)
        break
      case 'store_sql':
        if (stored.size < MAX_STORED && typeof request.sql === 'string')
          stored.set(request.sql_id, request.sql.slice(0, MAX_PARSED))
        break
      case 'close_sql':
        stored.delete(request.sql_id)
        break
      default:
    }
    return count - before
  }
}

function stepsOf(batch: WireBatch | undefined): NonNullable<WireBatch['steps']> {
  return Array.isArray(batch?.steps) ? batch.steps : []
}

function textOf(statement: WireStatement | undefined, stored: StoredTexts): string {
  if (typeof statement?.sql === 'string') return statement.sql
  return stored.get(statement?.sql_id) ?? '(a text that was stored before this page was opened)'
}

function seen(sql: string, isRun: boolean): SeenStatement {
  const text = sql.length > MAX_TEXT ? `${sql.slice(0, MAX_TEXT)}…` : sql
  return { sql: text, effects: isRun ? effectsOf(sql) : [] }
}

function effectsOf(sql: string): readonly Effect[] {
  if (sql.length > MAX_PARSED) return ['other']
  try {
    return parseStatements(sql).map(effectOf)
  } catch {
    return ['other'] // the server refuses it
  }
}

function effectOf({ sql, verb, kind, needsWriteLock }: Statement): Effect {
  if (kind === 'begin') return needsWriteLock ? 'begin-write' : 'begin'
  if (verb === 'COMMIT' || verb === 'END') return 'commit'
  // to a savepoint: the transaction goes on
  if (verb === 'ROLLBACK') return /\bto\b/i.test(sql) ? 'other' : 'rollback'
  return needsWriteLock ? 'write' : 'other'
}
