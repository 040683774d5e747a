import type { WireResult } from '../base/wire.ts'
import type { EncodedStatement } from './statement.ts'

const UPSERT = /\bdo\s+update\b/i

/**
 * Finds which rowid a statement inserted, from the results of one stream in their order. The server repeats the one of an
 * older statement for those that inserted nothing, or 0 on a new stream.
 */
export class InsertedRowids {
  #last: string | null | undefined = '0'

  read(
    { last_insert_rowid: rowid, affected_row_count: count }: WireResult,
    { kind, sql }: EncodedStatement,
  ): bigint | null {
    const isRepeated = rowid === this.#last
    this.#last = rowid
    if (rowid == null || count === 0 || kind !== 'insert') return null
    return isRepeated && UPSERT.test(sql) ? null : BigInt(rowid)
  }
}
