import type { PipelineRequest, SqlReference } from '../hrana/pipeline-types.ts'
import {
  type CursorBody,
  decodeCursorBody,
  decodePipelineBody,
  type PipelineBody,
} from '../hrana/request-decoder.ts'
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
/** Stored texts of one stream that are remembered. */
const MAX_STORED = 64

/** Texts that a client has stored on its stream, by their number. */
export type StoredTexts = Map<number | null, string>

/** What a body says; null for what the server refuses to read. */
export function readBody(text: string): PipelineBody | CursorBody | null {
  for (const decode of [decodePipelineBody, decodeCursorBody]) {
    try {
      return decode(text)
    } catch {
      // it may be the other one
    }
  }
  return null
}

/** Reads what a body asks for. */
export function readRequest(body: PipelineBody | CursorBody, stored: StoredTexts): SeenRequest {
  const list: SeenStatement[] = []
  let count = 0
  const add = (references: readonly SqlReference[], isRun = true): number => {
    count += references.length
    const shown = references.slice(0, MAX_STATEMENTS - list.length)
    list.push(...shown.map((reference) => seen(textOf(reference, stored), isRun)))
    return references.length
  }
  const addRequest = (request: PipelineRequest): number => {
    switch (request.type) {
      case 'execute':
        return add([request.statement])
      case 'batch':
        return add(request.steps.map(({ statement }) => statement))
      case 'sequence':
        return add([request])
      case 'describe':
        return add([request], false)
      case 'store_sql':
        if (stored.size < MAX_STORED) stored.set(request.sqlId, request.sql.slice(0, MAX_PARSED))
        return 0
      case 'close_sql':
        stored.delete(request.sqlId)
        return 0
      default:
        return 0
    }
  }
  const shape = 'requests' in body ? body.requests.map(addRequest) : null
  if ('steps' in body) add(body.steps.map(({ statement }) => statement))
  return { statements: list, more: count - list.length, shape }
}

function textOf({ sql, sqlId }: SqlReference, stored: StoredTexts): string {
  return sql ?? stored.get(sqlId) ?? '(a text that was stored before this page was opened)'
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
