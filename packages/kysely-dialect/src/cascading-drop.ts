import { type Executor, SqlError } from '@batonsql/core'

const NAME = [
  '"(?:[^"]|"")+"',
  '`(?:[^`]|``)+`',
  "'(?:[^']|'')+'",
  String.raw`\[[^\]]+\]`,
  // ends where a comment begins
  '[^\\s.;"\'`[/-]+',
].join('|')
// a comment matches in only one way, so that long comments take no exponential time
const GAP = String.raw`(?:\s|--[^\n]*\n|/\*[^*]*(?:\*(?!/)[^*]*)*\*/)*`
const DROP_TABLE = new RegExp(
  String.raw`^${GAP}drop${GAP}table\b${GAP}(?:if${GAP}exists\b${GAP})?(?:(?:${NAME})${GAP}\.${GAP})?(${NAME})`,
  'i',
)

/** Foreign keys of other tables whose rows a DROP of the table would delete or change; none unless foreign keys are on. */
const CHANGING_KEYS = `select s.name, f."from" from sqlite_schema s join pragma_foreign_key_list(s.name) f
  where s.type = 'table' and lower(f."table") = lower(?1) and lower(s.name) <> lower(?1)
  and f.on_delete in ('CASCADE', 'SET NULL', 'SET DEFAULT') and (select foreign_keys from pragma_foreign_keys)`

/** Returns the name of the table that a statement drops, without quotes; undefined if it is another statement. */
export const findDroppedTable = (sql: string): string | undefined => unquote(DROP_TABLE.exec(sql)?.[1])

/**
 * Checks that the queries of a migration do not drop a table whose rows others refer to with ON DELETE CASCADE or SET … while
 * foreign keys are on: SQLite deletes or changes those rows without an error, which a rebuild of a table never intends.
 * @throws TypeError if one does
 */
export async function rejectCascadingDrops(
  queries: readonly { readonly sql: string }[],
  executor: Executor,
): Promise<void> {
  for (const { sql } of queries) {
    const table = findDroppedTable(sql)
    const keys = table === undefined ? [] : await readKeys(executor, table)
    if (keys.length === 0) continue
    const conditions = keys.map(
      ([child, column]) =>
        `select ${quote(child, "'")} where exists (select 1 from ${quote(child)} where ${quote(column)} is not null)`,
    )
    const { rows } = await executor.execute(conditions.join(' union '), undefined, { rowMode: 'array' })
    const tables = rows.map(([child]) => child)
    if (tables.length > 0)
      throw new TypeError(
        `DROP TABLE ${table} would delete or change the rows of ${tables.join(', ')} that refer to it, because foreign keys are on: ` +
          'run PRAGMA foreign_keys = off first, outside of a transaction, or delete these rows first',
      )
  }
}

/** Returns the tables and columns of such keys; none if the engine cannot list foreign keys. */
async function readKeys(executor: Executor, table: string): Promise<readonly (readonly [string, string])[]> {
  try {
    const statement = { sql: CHANGING_KEYS, args: [table] }
    const { rows } = await executor.execute(statement, undefined, { rowMode: 'array' })
    return rows as unknown as (readonly [string, string])[]
  } catch (error) {
    if (error instanceof SqlError) return []
    throw error
  }
}

const quote = (name: string, mark = '"'): string => `${mark}${name.replaceAll(mark, mark + mark)}${mark}`

function unquote(name: string | undefined): string | undefined {
  const [mark] = name ?? ''
  if (name === undefined || mark === undefined || !'"`[\''.includes(mark)) return name
  const inner = name.slice(1, -1)
  return mark === '[' ? inner : inner.replaceAll(mark + mark, mark)
}
