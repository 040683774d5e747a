import {
  type CursorBody,
  decodeCursorBody,
  decodePipelineBody,
  type PipelineBody,
  type PipelineRequest,
  type SqlReference,
} from '@batonsql/server-common/hrana'
import { parseStatements, type Statement } from '@batonsql/server-common/sql'
import type { Effect, ShownStatement } from './page/wire-model.ts'

export interface ParsedRequest {
  readonly statements: readonly ShownStatement[]
  /** Number of statements that are not shown because there are too many. */
  readonly more: number
  /** Number of statements of each request, needed to parse the response; null for a cursor. */
  readonly shape: readonly number[] | null
}

/** Maximum number of shown statements of a request. */
export const MAX_STATEMENTS = 50
/** Maximum length of a shown statement, in characters. */
const MAX_SHOWN_LENGTH = 2_000
/** Maximum length of parsed SQL text, in characters. */
const MAX_PARSED_LENGTH = 64 * 1_024
/** Maximum number of stored statements per stream. */
const MAX_STORED_TEXTS = 64

/** SQL texts that a client has stored on its stream, by number. */
export type StoredTexts = Map<number | null, string>

/** Parses the body of a pipeline or a cursor. Returns null if the server rejects it. */
export function parseBody(text: string): PipelineBody | CursorBody | null {
  for (const decode of [decodePipelineBody, decodeCursorBody]) {
    try {
      return decode(text)
    } catch {
      // it may be the body of a cursor
    }
  }
  return null
}

/** Extracts the statements of a body. @param stored SQL that the client has stored on the stream; updated here */
export function extractStatements(body: PipelineBody | CursorBody, stored: StoredTexts): ParsedRequest {
  const list: ShownStatement[] = []
  let count = 0
  const add = (references: readonly SqlReference[], isRun = true): number => {
    count += references.length
    const shownReferences = references.slice(0, MAX_STATEMENTS - list.length)
    list.push(...shownReferences.map((reference) => parseStatement(resolveText(reference, stored), isRun)))
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
        if (stored.size < MAX_STORED_TEXTS) stored.set(request.sqlId, request.sql.slice(0, MAX_PARSED_LENGTH))
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

function resolveText({ sql, sqlId }: SqlReference, stored: StoredTexts): string {
  return sql ?? stored.get(sqlId) ?? '(text stored before this page was opened)'
}

function parseStatement(sql: string, isRun: boolean): ShownStatement {
  const text = sql.length > MAX_SHOWN_LENGTH ? `${sql.slice(0, MAX_SHOWN_LENGTH)}…` : sql
  return { sql: text, effects: isRun ? getEffects(sql) : [] }
}

function getEffects(sql: string): readonly Effect[] {
  if (sql.length > MAX_PARSED_LENGTH) return ['other']
  try {
    return parseStatements(sql).map(getEffect)
  } catch {
    return ['other'] // rejected by the server
  }
}

function getEffect({ sql, verb, kind, needsWriteLock }: Statement): Effect {
  if (kind === 'begin') return needsWriteLock ? 'begin-write' : 'begin'
  if (verb === 'COMMIT' || verb === 'END') return 'commit'
  // ROLLBACK TO a savepoint leaves the transaction open
  if (verb === 'ROLLBACK') return /\bto\b/i.test(sql) ? 'other' : 'rollback'
  return needsWriteLock ? 'write' : 'other'
}
