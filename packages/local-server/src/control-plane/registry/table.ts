import type { RegistryFile, RegistryValue } from './registry-file.ts'

/** How a field is kept in the file. Null is NULL in each of them. */
export type ColumnType = 'text' | 'integer' | 'boolean' | 'json'
type Columns<Row> = { readonly [Name in keyof Row & string]: ColumnType }

/** A table of the registry, all of it in memory: reading never asks the file. Writing belongs into a transaction. */
export class Table<Row extends { readonly id: string }> {
  readonly #file: RegistryFile
  readonly #name: string
  readonly #columns: readonly (readonly [name: keyof Row & string, type: ColumnType])[]
  readonly #rows = new Map<string, Row>()
  readonly #indexes: Index<Row>[] = []

  constructor(file: RegistryFile, name: string, columns: Columns<Row>) {
    this.#file = file
    this.#name = name
    this.#columns = Object.entries(columns) as [keyof Row & string, ColumnType][]
  }

  /** Takes what the file has, at the start and after a transaction that was undone. */
  load(): void {
    for (const id of this.#rows.keys()) this.#forget(id)
    const names = this.#columns.map(([name]) => `"${name}"`).join(', ')
    for (const values of this.#file.all(`SELECT ${names} FROM ${this.#name} ORDER BY rowid`)) {
      const fields = this.#columns.map(([name, type], at) => [name, decode(type, values[at] ?? null)])
      this.#keep(Object.fromEntries(fields) as Row)
    }
  }

  /** A way to find rows by something that at most one row has; rows with the key null are not in it. */
  index(keyOf: (row: Row) => string | null): (key: string) => Row | undefined {
    const index = { keyOf, rows: new Map<string, Row>() }
    this.#indexes.push(index)
    return (key) => index.rows.get(key)
  }

  get(id: string): Row | undefined {
    return this.#rows.get(id)
  }

  /** In the order in which they were made. */
  get rows(): readonly Row[] {
    return [...this.#rows.values()]
  }

  /** Writes a row, in place of the one with its id. */
  put(row: Row): void {
    const names = this.#columns.map(([name]) => `"${name}"`)
    const updates = names.map((name) => `${name} = excluded.${name}`)
    this.#file.run(
      `INSERT INTO ${this.#name} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})
       ON CONFLICT (id) DO UPDATE SET ${updates.join(', ')}`,
      this.#columns.map(([name, type]) => encode(type, row[name])),
    )
    this.#keep(row)
  }

  delete(id: string): void {
    this.#file.run(`DELETE FROM ${this.#name} WHERE id = ?`, [id])
    this.#forget(id)
  }

  #keep(row: Row): void {
    const before = this.#rows.get(row.id)
    for (const index of this.#indexes) {
      const [old, key] = [before === undefined ? null : index.keyOf(before), index.keyOf(row)]
      if (old !== null && old !== key) index.rows.delete(old)
      if (key !== null) index.rows.set(key, row)
    }
    this.#rows.set(row.id, row)
  }

  #forget(id: string): void {
    const row = this.#rows.get(id)
    if (row === undefined) return
    for (const index of this.#indexes) {
      const key = index.keyOf(row)
      if (key !== null) index.rows.delete(key)
    }
    this.#rows.delete(id)
  }
}

interface Index<Row> {
  readonly keyOf: (row: Row) => string | null
  readonly rows: Map<string, Row>
}

function encode(type: ColumnType, value: unknown): RegistryValue {
  if (value === null) return null
  if (type === 'json') return JSON.stringify(value)
  return type === 'boolean' ? Number(value) : (value as RegistryValue)
}

function decode(type: ColumnType, value: RegistryValue): unknown {
  if (value === null) return null
  if (type === 'json') return JSON.parse(value as string)
  return type === 'boolean' ? value !== 0 : value
}
