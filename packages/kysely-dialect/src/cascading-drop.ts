import { type Executor, type InStatement, SqlError } from '@batonsql/core'

const NAME = String.raw`"(?:[^"]|"")+"|\x60(?:[^\x60]|\x60\x60)+\x60|\[[^\]]+\]|'(?:[^']|'')+'|[^\s.;"'\x60[]+`
// a comment can end in only one way, so that the expression never backtracks
const DROP_TABLE = new RegExp(
  String.raw`^(?:\s|--[^\n]*\n|/\*[^*]*(?:\*(?!/)[^*]*)*\*/)*drop\s+table\s+(?:if\s+exists\s+)?(?:(?:${NAME})\s*\.\s*)?(${NAME})`,
  'i',
)

/** Keys of other tables that a dropped table changes; none unless foreign keys are on. */
const CHANGING_KEYS = `select s.name, f."from" from sqlite_schema s join pragma_foreign_key_list(s.name) f
  where s.type = 'table' and lower(f."table") = lower(?1) and lower(s.name) <> lower(?1)
  and f.on_delete in ('CASCADE', 'SET NULL', 'SET DEFAULT') and (select foreign_keys from pragma_foreign_keys)`

/**
 * Checks that a statement of a migration does not drop a table whose rows others refer to with ON DELETE CASCADE or SET NULL while
 * foreign keys are on: SQLite deletes or changes those rows without an error, which a rebuild of a table never intends.
 * @throws TypeError if it does
 */
export async function rejectCascadingDrop(sql: string, executor: Executor): Promise<void> {
  const table = unquote(DROP_TABLE.exec(sql)?.[1])
  if (table === undefined) return
  const keys = await read(executor, { sql: CHANGING_KEYS, args: [table] })
  if (keys.length === 0) return
  const conditions = keys.map(
    ([child, column]) =>
      `select ${quote(child, "'")} where exists (select 1 from ${quote(child)} where ${quote(column)} is not null)`,
  )
  const tables = (await read(executor, conditions.join(' union '))).map(([child]) => child)
  if (tables.length > 0)
    throw new TypeError(
      `DROP TABLE ${table} would delete or change the rows of ${tables.join(', ')} that refer to it, because foreign keys are on: ` +
        'run PRAGMA foreign_keys = off first, outside of a transaction, or delete these rows first',
    )
}

/** Returns rows of texts; none if the engine cannot list foreign keys. */
async function read(executor: Executor, statement: InStatement): Promise<readonly (readonly string[])[]> {
  try {
    return (await executor.execute(statement, undefined, { rowMode: 'array' })).rows as unknown as string[][]
  } catch (error) {
    if (error instanceof SqlError) return []
    throw error
  }
}

const quote = (name = '', mark = '"'): string => `${mark}${name.replaceAll(mark, mark + mark)}${mark}`

function unquote(name: string | undefined): string | undefined {
  const [mark] = name ?? ''
  if (name === undefined || mark === undefined || !'"`[\''.includes(mark)) return name
  const inner = name.slice(1, -1)
  return mark === '[' ? inner : inner.replaceAll(mark + mark, mark)
}
