import type { RegistryFile } from './registry-file.ts'

/**
 * Rows of one kind, all in memory: reads never access the file. Writes must be made in `Registry.transaction`, which reads the rows again
 * if it is rolled back.
 */
export class Table<Row extends { readonly id: string }> {
  readonly #registry: { readonly file: RegistryFile }
  readonly #kind: string
  readonly #rows = new Map<string, Row>()
  /** For each index, the function that returns a row's key, and the rows by their keys. */
  readonly #indexes = new Map<(row: Row) => string | null, Map<string, Row>>()

  /** @param registry not its file, which the registry sets only after it has created its tables */
  constructor(registry: { readonly file: RegistryFile }, kind: string) {
    this.#registry = registry
    this.#kind = kind
  }

  /** Loads the rows from the file, at the start and after a rollback. */
  load(): void {
    this.#rows.clear()
    for (const rows of this.#indexes.values()) rows.clear()
    const sql = 'SELECT value FROM record WHERE kind = ? ORDER BY rowid'
    for (const { value } of this.#registry.file.all<{ value: string }>(sql, [this.#kind]))
      this.#store(JSON.parse(value) as Row)
  }

  /**
   * Adds an index of a unique key and returns its lookup; must be called before `load`. Rows with the key null are not indexed. A key
   * may depend on values in tables that are loaded earlier, if these values never change.
   */
  index(getKey: (row: Row) => string | null): (key: string) => Row | undefined {
    const rows = new Map<string, Row>()
    this.#indexes.set(getKey, rows)
    return (key) => rows.get(key)
  }

  get(id: string): Row | undefined {
    return this.#rows.get(id)
  }

  /** Rows in the order in which they were created. */
  get rows(): readonly Row[] {
    return [...this.#rows.values()]
  }

  /** Inserts a row, or replaces the one with the same id. @throws Error if another row has one of its keys */
  put(row: Row): void {
    for (const [getKey, rows] of this.#indexes) {
      const key = getKey(row)
      const existing = key === null ? undefined : rows.get(key)
      if (existing !== undefined && existing.id !== row.id)
        throw new Error(`another ${this.#kind} already has the key ${key}`)
    }
    this.#registry.file.run(
      `INSERT INTO record (kind, id, value) VALUES (?, ?, ?)
       ON CONFLICT (kind, id) DO UPDATE SET value = excluded.value`,
      [this.#kind, row.id, JSON.stringify(row)],
    )
    this.#store(row)
  }

  delete(id: string): void {
    this.#registry.file.run('DELETE FROM record WHERE kind = ? AND id = ?', [this.#kind, id])
    this.#unindex(id)
    this.#rows.delete(id)
  }

  #store(row: Row): void {
    this.#unindex(row.id)
    for (const [getKey, rows] of this.#indexes) {
      const key = getKey(row)
      if (key !== null) rows.set(key, row)
    }
    this.#rows.set(row.id, row)
  }

  #unindex(id: string): void {
    const row = this.#rows.get(id)
    if (row === undefined) return
    for (const [getKey, rows] of this.#indexes) {
      const key = getKey(row)
      if (key !== null) rows.delete(key)
    }
  }
}
