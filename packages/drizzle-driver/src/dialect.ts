import { entityKind, sql } from 'drizzle-orm'
import type { SQLiteAsyncDialect as Dialect } from 'drizzle-orm/sqlite-core'
import { SQLiteAsyncDialect } from './drizzle-0.ts'
import { columnOf } from './internals.ts'
import { decodable } from './row-mapping.ts'

type RelationalQuery = Parameters<Dialect['buildRelationalQuery']>[0]

/** Drizzle's dialect, whose relational queries reject inexact integers, as selects do. */
export class BatonDialect extends SQLiteAsyncDialect {
  static override readonly [entityKind]: string = 'BatonDialect'

  override buildRelationalQuery(query: RelationalQuery): ReturnType<Dialect['buildRelationalQuery']> {
    const built = super.buildRelationalQuery(query)
    const selection = built.selection.map((item) => {
      const column = columnOf(item.field)
      if (column === null) return item
      // from here on only the decoder of the field is used
      const decode = (value: unknown): unknown => column.mapFromDriverValue(decodable(value, column))
      return { ...item, field: sql``.mapWith(decode).as(item.tsKey) }
    })
    return { ...built, selection }
  }
}
