import { entityKind, is, SQL } from 'drizzle-orm'
import type { SQLiteAsyncDialect as Dialect } from 'drizzle-orm/sqlite-core'
import { SQLiteAsyncDialect } from './drizzle-0.ts'
import { withExactDecoder } from './exact-decoder.ts'
import { withAllDigits } from './nested-reals.ts'

type RelationalQuery = Parameters<Dialect['buildRelationalQuery']>[0]
type Select = Parameters<Dialect['buildSelectQuery']>[0]

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

  override buildSelectQuery(select: Select): SQL {
    const [item, ...others] = select.fieldsFlat ?? []
    // only the fields of relational queries have no path
    const isNested = item?.path.length === 0 && others.length === 0 && is(item.field, SQL.Aliased)
    if (!isNested) return super.buildSelectQuery(select)
    const { sql, fieldAlias } = item.field as SQL.Aliased
    return super.buildSelectQuery({
      ...select,
      fieldsFlat: [{ ...item, field: withAllDigits(sql).as(fieldAlias) }],
    })
  }
}
