import type { WireResult } from '../base/wire.ts'
import type { EncodedStatement } from './statement.ts'

const UPSERT = /\bdo\s+update\b/i

/**
 * Determines the rowid that a statement inserted, from the results of one stream in order. For statements that inserted nothing
 * the server repeats the rowid of an earlier one, or 0 on a new stream. An insert into a table WITHOUT ROWID cannot be
 * recognized without another request; use RETURNING for such a table.
 */
export class InsertedRowids {
  #lastRowid: string | null | undefined = '0'

  read(
    { last_insert_rowid: rowid, affected_row_count: count }: WireResult,
    { kind, sql }: EncodedStatement,
  ): bigint | null {
    const isRepeated = rowid === this.#lastRowid
    this.#lastRowid = rowid
    if (rowid == null || count === 0 || kind !== 'insert') return null
    return isRepeated && UPSERT.test(sql) ? null : BigInt(rowid)
  }
}
