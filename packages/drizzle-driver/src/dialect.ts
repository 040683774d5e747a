import { entityKind, sql } from 'drizzle-orm'
import type { SQLiteAsyncDialect as Dialect } from 'drizzle-orm/sqlite-core'
import { SQLiteAsyncDialect } from './drizzle-0.ts'
import { findColumn } from './internals.ts'
import { prepareForDecoder } from './row-mapping.ts'

type RelationalQuery = Parameters<Dialect['buildRelationalQuery']>[0]

/** Drizzle's dialect, whose relational queries reject inexact integers, as selects do. */
export class BatonDialect extends SQLiteAsyncDialect {
  static override readonly [entityKind]: string = 'BatonDialect'

  override buildRelationalQuery(query: RelationalQuery): ReturnType<Dialect['buildRelationalQuery']> {
    const relationalQuery = super.buildRelationalQuery(query)
    const selection = relationalQuery.selection.map((item) => {
      const column = findColumn(item.field)
      if (column === null) return item
      // Drizzle uses only the decoder of this field
      const decode = (value: unknown): unknown => column.mapFromDriverValue(prepareForDecoder(value, column))
      return { ...item, field: sql``.mapWith(decode).as(item.tsKey) }
    })
    return { ...relationalQuery, selection }
  }
}
