import type { BetterAuthOptions } from 'better-auth'
import { getAuthTables } from 'better-auth/db'
import { relations } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

type AuthField = ReturnType<typeof getAuthTables>[string]['fields'][string]

/** Returns the Drizzle tables and relations that better-auth's generator would write to a file for these options. */
export function drizzleTablesOf(options: BetterAuthOptions): Record<string, unknown> {
  const isSerial = options.advanced?.database?.generateId === 'serial'
  const authTables = getAuthTables(options)
  const tables = Object.fromEntries(
    Object.values(authTables).map(({ modelName, fields }) => {
      const id = isSerial ? integer().primaryKey({ autoIncrement: true }) : text().primaryKey()
      const columns = Object.entries(fields).map(([key, field]) => [
        field.fieldName ?? key,
        columnOf(field, isSerial),
      ])
      return [modelName, sqliteTable(modelName, { id, ...Object.fromEntries(columns) })]
    }),
  )
  return { ...tables, ...relationsOf(authTables, tables) }
}

function columnOf({ type, required, references }: AuthField, isSerial: boolean) {
  const column = () => {
    if (references?.field === 'id') return isSerial ? integer() : text()
    if (type === 'number') return integer()
    if (type === 'boolean') return integer({ mode: 'boolean' })
    if (type === 'date') return integer({ mode: 'timestamp_ms' })
    return type === 'json' || type === 'string[]' || type === 'number[]' ? text({ mode: 'json' }) : text()
  }
  return required ? column().notNull() : column()
}

/** Returns the relations between the tables, named as better-auth expects: `one` after the model, `many` with an added s. */
function relationsOf(
  authTables: ReturnType<typeof getAuthTables>,
  tables: Record<string, ReturnType<typeof sqliteTable>>,
): Record<string, unknown> {
  // a reference contains the key or the name of a table, and the key of a field
  const nameOf = (model: string): string => authTables[model]?.modelName ?? model
  const fieldOf = (model: string, key: string): string => authTables[model]?.fields[key]?.fieldName ?? key
  const references = Object.values(authTables).flatMap(({ modelName, fields }) =>
    Object.entries(fields).flatMap(([key, { references, fieldName = key, unique }]) => {
      if (references === undefined) return []
      const { model, field } = references
      return [{ from: modelName, fieldName, to: nameOf(model), field: fieldOf(model, field), unique }]
    }),
  )
  return Object.fromEntries(
    Object.entries(tables).map(([name, table]) => {
      const created = relations(table, ({ one, many }) => {
        const toOtherTables = references
          .filter(({ from }) => from === name)
          .map(({ fieldName, to, field }) => {
            const fields = [columnNamed(table, fieldName)] as const
            const target = tables[to] as typeof table
            return [
              to,
              one(target, { fields: [...fields], references: [columnNamed(target, field)] }),
            ] as const
          })
        const toTable = references
          .filter(({ to }) => to === name)
          .map(({ from, unique }) => {
            const source = tables[from] as typeof table
            return unique ? ([from, one(source)] as const) : ([`${from}s`, many(source)] as const)
          })
        return Object.fromEntries([...toOtherTables, ...toTable])
      })
      return [`${name}Relations`, created]
    }),
  )
}

const columnNamed = (table: ReturnType<typeof sqliteTable>, name: string) =>
  (table as unknown as Record<string, ReturnType<typeof text>>)[name] as never
