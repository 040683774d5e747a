import { randomUUID } from 'node:crypto'
import { mkdir, open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { DatabaseId, DatabaseSettings } from '../backend.ts'

/** A database as the control plane knows it. */
export interface DatabaseRecord {
  readonly name: string
  readonly id: DatabaseId
  readonly settings: DatabaseSettings
}

/** A fresh id; ids are never used twice, not even after a failed attempt. */
export function newDatabaseId(): DatabaseId {
  return randomUUID() as DatabaseId
}

/**
 * Which database has which name and settings. Kept in one file of the data directory, which is replaced as a whole
 * at every change: after a crash it is the old one or the new one.
 */
export class Registry {
  readonly #path: string
  readonly #records: Map<string, DatabaseRecord>
  #saving: Promise<void> = Promise.resolve()

  private constructor(path: string, records: readonly DatabaseRecord[]) {
    this.#path = path
    this.#records = new Map(records.map((record) => [record.name, record]))
  }

  static async open(directory: string): Promise<Registry> {
    await mkdir(directory, { recursive: true })
    const path = join(directory, 'registry.json')
    try {
      const { databases } = JSON.parse(await readFile(path, 'utf8')) as { databases: DatabaseRecord[] }
      return new Registry(path, databases)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Registry(path, [])
      throw new Error(`the registry ${path} cannot be read`, { cause: error })
    }
  }

  get records(): readonly DatabaseRecord[] {
    return [...this.#records.values()]
  }

  find(name: string): DatabaseRecord | undefined {
    return this.#records.get(name)
  }

  async put(record: DatabaseRecord): Promise<void> {
    this.#records.set(record.name, record)
    await this.#save()
  }

  async remove(name: string): Promise<void> {
    this.#records.delete(name)
    await this.#save()
  }

  /** One save at a time; each writes what is known when it begins. */
  #save(): Promise<void> {
    this.#saving = this.#saving.then(async () => {
      const scratch = `${this.#path}.new`
      const file = await open(scratch, 'w')
      await file.writeFile(`${JSON.stringify({ databases: this.records }, null, 2)}\n`)
      await file.sync()
      await file.close()
      await rename(scratch, this.#path)
    })
    return this.#saving
  }
}
