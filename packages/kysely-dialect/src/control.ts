import { CompiledQuery } from 'kysely'

const controls = new WeakSet<object>()

/** BEGIN, COMMIT or ROLLBACK of a transaction of Kysely's. A query, so that Kysely's `log` shows it. */
export function controlQuery(sql: string): CompiledQuery {
  const query = CompiledQuery.raw(sql)
  controls.add(query.query)
  return query
}

/** Whether a query is one of those, and not the same words written by somebody. */
export const isControlQuery = ({ query }: CompiledQuery): boolean => controls.has(query)
