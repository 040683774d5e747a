import { entityKind } from 'drizzle-orm'
import type { SQLiteAsyncDialect as Dialect } from 'drizzle-orm/sqlite-core'
import { SQLiteAsyncDialect } from './drizzle-0.ts'
import { withExactDecoder } from './row-mapping.ts'

type RelationalQuery = Parameters<Dialect['buildRelationalQuery']>[0]

/** Drizzle's dialect, whose relational queries decode columns as selects do. */
export class BatonDialect extends SQLiteAsyncDialect {
  static override readonly [entityKind]: string = 'BatonDialect'

  override buildRelationalQuery(query: RelationalQuery): ReturnType<Dialect['buildRelationalQuery']> {
    const relationalQuery = super.buildRelationalQuery(query)
    const selection = relationalQuery.selection.map((item) => ({
      ...item,
      field: withExactDecoder(item.field),
    }))
    return { ...relationalQuery, selection }
  }
}
