import {
  type AliasableExpression,
  AliasNode,
  type Expression,
  IdentifierNode,
  type OperationNode,
  type RawBuilder,
  RawNode,
  type SelectQueryNode,
  type ShallowDehydrateObject,
  type ShallowDehydrateValue,
  type Simplify,
  sql,
} from 'kysely'
import { columnName } from './column-name.ts'

// SQLite's JSON functions keep 15 digits of a REAL, which needs up to 17.

// Kysely exports its own types from `kysely/helpers/sqlite`, which some module resolutions do not find.

interface Subquery<out O> extends AliasableExpression<O> {
  readonly isSelectQueryBuilder: true
  toOperationNode(): SelectQueryNode
}

type JsonRow<O> = Simplify<ShallowDehydrateObject<O>>
type JsonObject<O> = Simplify<{
  [K in keyof O]: O[K] extends Expression<infer V> ? ShallowDehydrateValue<V> : never
}>

/**
 * Kysely's `jsonArrayFrom` that keeps all digits of REAL values: aggregates a subquery into a JSON array of its rows. The subquery
 * must name its columns. The results are parsed by {@link ExactJSONResultsPlugin}.
 */
export const jsonArrayFrom = <O>(query: Subquery<O>): RawBuilder<JsonRow<O>[]> =>
  sql`(select coalesce(json_group_array(${objectOf(query.toOperationNode(), 'agg')}), '[]') from ${query} as agg)`

/** Kysely's `jsonObjectFrom` that keeps all digits of REAL values: turns a subquery of at most one row into a JSON object. */
export const jsonObjectFrom = <O>(query: Subquery<O>): RawBuilder<JsonRow<O> | null> =>
  sql`(select ${objectOf(query.toOperationNode(), 'obj')} from ${query} as obj)`

/** Kysely's `jsonBuildObject` that keeps all digits of REAL values. Of JSON values, only those of these three functions are nested. */
export const jsonBuildObject = <O extends Record<string, Expression<unknown>>>(
  object: O,
): RawBuilder<JsonObject<O>> =>
  objectFrom(
    Object.entries(object).map(([name, value]) => [name, exactValue(value, value.toOperationNode())]),
  )

/** Whether a node is the result of one of these functions. Judged by its text, because plugins copy the nodes of a subquery. */
function isJson(node: OperationNode | undefined): boolean {
  if (node === undefined || !RawNode.is(node)) return false
  const [start = ''] = node.sqlFragments
  if (start === '(select ') return isJson(node.parameters[0])
  return start === 'json_object(' || start === '(select coalesce(json_group_array('
}

const objectFrom = <T>(entries: readonly (readonly [string, Expression<unknown>])[]): RawBuilder<T> =>
  sql<T>`json_object(${sql.join(entries.flatMap(([name, value]) => [sql.lit(name), value]))})`

/** @throws Error if the query selects a column without a name */
function objectOf({ selections = [] }: SelectQueryNode, table: string): RawBuilder<unknown> {
  return objectFrom(
    selections.map(({ selection }) => {
      const expression = AliasNode.is(selection) ? selection.node : selection
      const name = AliasNode.is(selection) ? aliasName(selection) : columnName(selection)
      if (name === null)
        throw new Error('the subquery of a JSON helper must name its columns; selectAll() is not possible')
      return [name, exactValue(sql.id(table, name), expression)]
    }),
  )
}

const aliasName = ({ alias }: AliasNode): string | null => (IdentifierNode.is(alias) ? alias.name : null)

/**
 * Returns an argument of a JSON function. A value that is computed is evaluated only once.
 * @param node what computes the value
 */
function exactValue(value: Expression<unknown>, node: OperationNode): Expression<unknown> {
  // SQLite may take JSON that a subquery returns for text
  if (isJson(node)) return sql`json(${value})`
  if (columnName(node) !== null) return withAllDigits(value)
  return sql`(select ${withAllDigits(sql.id('v'))} from (select ${value} as v))`
}

/** Formats a REAL as JSON with 17 digits. JSON has no infinity, which SQLite formats as 9e999. */
const withAllDigits = (value: Expression<unknown>): RawBuilder<unknown> =>
  sql`case when typeof(${value}) = 'real' and abs(${value}) < 9e999 then json(printf('%!.17g', ${value})) else ${value} end`
