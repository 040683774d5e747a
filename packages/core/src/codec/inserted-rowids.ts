import { BLANK, quotedBy } from '../sql/verb.ts'
import type { EncodedStatement } from './statement.ts'

/** The part of a result, or of the end of a cursor, that has the rowid of the connection. */
interface RowidResult {
  readonly last_insert_rowid?: string | number | null
  readonly affected_row_count: number
}

/**
 * Determines the rowid that a statement inserted, from the results of one stream in order. After a statement that inserts nothing, the
 * server repeats the previous rowid, or 0 on a new stream. So the rowid of an upsert is known only if it differs from the previous one:
 * otherwise, the upsert may have updated a row. The same applies to a rowid of 0, which may mean that nothing was inserted. An insert
 * into a table WITHOUT ROWID cannot be recognized, and gets the rowid of an earlier insert.
 */
export class InsertedRowids {
  /** The last rowid of the connection; null if it is unknown. */
  #last: string | null = '0'

  /** Reads a result. @returns the rowid that the statement inserted; null if it inserted none, or if that is not certain */
  read(
    { last_insert_rowid: wireRowid, affected_row_count: count }: RowidResult,
    { kind, sql }: EncodedStatement,
  ): bigint | null {
    // a cursor sends a JSON number, which may have been rounded
    const isExact = typeof wireRowid !== 'number' || Number.isSafeInteger(wireRowid)
    const rowid = wireRowid == null || !isExact ? null : String(wireRowid)
    // reads have no rowid, and do not change it
    if (rowid === null && kind === 'insert') this.forget()
    if (rowid === null) return null
    const mayBeRepeated = this.#last === null || rowid === this.#last
    this.#last = rowid
    if (count === 0 || kind !== 'insert') return null
    if (!mayBeRepeated && BEGINS_WITH_INSERT.test(sql)) return BigInt(rowid)
    const text = sql.replace(SEPARATORS, ' ')
    // 0 repeated: nothing was inserted before, nor perhaps by this statement, as into a table WITHOUT ROWID
    if (mayBeRepeated && (rowid === '0' || DO_UPDATE.test(text))) return null
    return inserts(text) ? BigInt(rowid) : null
  }

  /** Called if a statement may have inserted rows whose result is not known, as after an error. */
  forget(): void {
    this.#last = null
  }
}

/** Matches quoted text, comments and whitespace. */
const SEPARATORS = /* @__PURE__ */ (() =>
  new RegExp(`${quotedBy("'")}|${quotedBy('"')}|${quotedBy('`')}|\\[[^\\]]*(?:\\]|$)|${BLANK}`, 'g'))()
/** A shortcut: matches most inserts. Others begin with a comment, or with WITH, and are examined further. */
const BEGINS_WITH_INSERT = /^\s*(?:insert|replace)\s/i
/** An INSERT without these words updates nothing. */
const DO_UPDATE = /(?<![\w$])do +update(?![\w$])/i

/** Whether a statement without quoted text inserts, if it begins with WITH: its first verb outside of parentheses decides. */
function inserts(text: string): boolean {
  let depth = 0
  for (const [token] of text.matchAll(/[()]|(?<![\w$])(?:insert|replace|update|delete)(?![\w$])/gi)) {
    if (token === '(') depth += 1
    else if (token === ')') depth -= 1
    else if (depth === 0) return /^[ir]/i.test(token)
  }
  return false
}
