import type { RegistryFile } from './registry-file.ts'

/** Rows of one kind, all of them in memory: reading never asks the file. Writing belongs into a transaction. */
export class Table<Row extends { readonly id: string }> {
  readonly #file: RegistryFile
  readonly #kind: string
  readonly #rows = new Map<string, Row>()
  readonly #indexes: Index<Row>[] = []

  constructor(file: RegistryFile, kind: string) {
    this.#file = file
    this.#kind = kind
  }

  /** Takes what the file has, at the start and after a transaction that was undone. */
  load(): void {
    for (const id of this.#rows.keys()) this.#forget(id)
    const sql = 'SELECT value FROM record WHERE kind = ? ORDER BY rowid'
    for (const { value } of this.#file.all<{ value: string }>(sql, [this.#kind]))
      this.#keep(JSON.parse(value) as Row)
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

  /** Writes a row, in place of the one with its id. @throws Error when another row has one of its keys */
  put(row: Row): void {
    for (const { keyOf, rows } of this.#indexes) {
      const other = rows.get(keyOf(row) ?? '')
      if (other !== undefined && other.id !== row.id)
        throw new Error(`there is another ${this.#kind} with the key ${keyOf(row)}`)
    }
    this.#file.run(
      `INSERT INTO record (kind, id, value) VALUES (?, ?, ?)
       ON CONFLICT (kind, id) DO UPDATE SET value = excluded.value`,
      [this.#kind, row.id, JSON.stringify(row)],
    )
    this.#keep(row)
  }

  delete(id: string): void {
    this.#file.run('DELETE FROM record WHERE kind = ? AND id = ?', [this.#kind, id])
    this.#forget(id)
  }

  #keep(row: Row): void {
    this.#unindex(row.id)
    for (const { keyOf, rows } of this.#indexes) {
      const key = keyOf(row)
      if (key !== null) rows.set(key, row)
    }
    this.#rows.set(row.id, row)
  }

  #forget(id: string): void {
    this.#unindex(id)
    this.#rows.delete(id)
  }

  #unindex(id: string): void {
    const row = this.#rows.get(id)
    if (row === undefined) return
    for (const { keyOf, rows } of this.#indexes) {
      const key = keyOf(row)
      // two rows may have had it: the index has the later one
      if (key !== null && rows.get(key)?.id === id) rows.delete(key)
    }
  }
}

interface Index<Row> {
  readonly keyOf: (row: Row) => string | null
  readonly rows: Map<string, Row>
}
