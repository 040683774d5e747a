import { open } from 'node:fs/promises'
import { DatabaseFiles, MAIN_FILE } from '../../embedded/engine/database-files.ts'
import { EngineConnection, type EngineStatement } from '../../embedded/engine/engine-connection.ts'
import { EngineInstance } from '../../embedded/engine/engine-instance.ts'
import { writerGate } from '../../embedded/engine/read-gate.ts'
import { engineModule } from '../../embedded/engine-module.ts'
import { CallBoard } from '../../embedded/protocol/call-board.ts'
import { DatabaseBoard } from '../../embedded/protocol/database-board.ts'
import type { EngineValue } from '../../embedded/protocol/pipeline-types.ts'

/** What a row of the file holds: integers are numbers here, none of them is large. */
export type RegistryValue = string | number | null

const ALL = { write: true, configure: true }
const READ_LIMIT_BYTES = 2 ** 30

/**
 * One SQLite file, on the embedded engine, in this thread: a change is on the disk when the call returns, and nothing
 * else happens meanwhile, so that what was checked before still holds.
 */
export class RegistryFile {
  readonly #files: DatabaseFiles
  readonly #connection: EngineConnection
  #isClosed = false

  private constructor(files: DatabaseFiles, engine: EngineInstance) {
    this.#files = files
    this.#connection = new EngineConnection(engine, { name: 'registry', file: MAIN_FILE, onlyRead: false })
    this.run('PRAGMA journal_mode = WAL')
    // an acknowledged change survives a power cut
    this.run('PRAGMA synchronous = FULL')
  }

  /** Opens the file, or makes it: it holds private keys and is readable by its owner alone. */
  static async open(path: string): Promise<RegistryFile> {
    await (await open(path, 'a', 0o600)).close()
    const gate = writerGate(new DatabaseBoard())
    const files = new DatabaseFiles(path, gate)
    const module = await engineModule()
    try {
      return new RegistryFile(files, new EngineInstance(module, { files, gate, board: new CallBoard() }))
    } catch (error) {
      files.closeAll()
      throw new Error(`the registry ${path} cannot be read`, { cause: error })
    }
  }

  /** Runs one statement. */
  run(sql: string, values: readonly RegistryValue[] = []): void {
    const statement = this.#prepare(sql)
    try {
      statement?.bind(values.map(toEngine))
      statement?.discardRows()
    } finally {
      statement?.finalize()
    }
  }

  /** The rows of a query. */
  all(sql: string, values: readonly RegistryValue[] = []): RegistryValue[][] {
    const statement = this.#prepare(sql)
    if (statement === null) return []
    try {
      statement.bind(values.map(toEngine))
      const options = { limitBytes: READ_LIMIT_BYTES, asLines: false, maxValueBytes: READ_LIMIT_BYTES }
      const rows = JSON.parse(`[${statement.rows(options).text}]`) as WireValue[][]
      return rows.map((row) => row.map(fromWire))
    } finally {
      statement.finalize()
    }
  }

  /** Makes all changes or none. @throws whatever the work throws, after it was undone */
  transaction(work: () => void): void {
    this.run('BEGIN IMMEDIATE')
    try {
      work()
      this.run('COMMIT')
    } catch (error) {
      if (this.#connection.inTransaction) this.run('ROLLBACK')
      throw error
    }
  }

  /** Leaves a file that every program can read. Whatever is still under way fails, and is finished at the next start. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#connection.close()
    this.#files.release()
  }

  #prepare(sql: string): EngineStatement | null {
    if (this.#isClosed) throw new Error('the registry is closed')
    return this.#connection.prepare(sql, ALL)
  }
}

type WireValue =
  | { readonly type: 'null' }
  | { readonly type: 'integer' | 'text'; readonly value: string }
  | { readonly type: 'float'; readonly value: number }

function toEngine(value: RegistryValue): EngineValue {
  return typeof value === 'number' ? BigInt(value) : value
}

function fromWire(value: WireValue): RegistryValue {
  if (value.type === 'null') return null
  return value.type === 'text' ? value.value : Number(value.value)
}
