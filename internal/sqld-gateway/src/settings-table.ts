import { randomUUID } from 'node:crypto'
import { type DatabaseId, type DatabaseSettings, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'

/** Settings with an id of the change that made them. */
export interface IdentifiedSettings extends DatabaseSettings {
  readonly changeId?: string
}

/** The settings of the databases of one server, which may not have applied the latest ones yet. */
export class SettingsTable {
  readonly #settings = new Map<DatabaseId, IdentifiedSettings>()
  /** Databases that other databases may attach; usually few. */
  readonly #attachable = new Set<DatabaseId>()

  get(id: DatabaseId): IdentifiedSettings {
    return this.#settings.get(id) ?? DEFAULT_SETTINGS
  }

  set(id: DatabaseId, settings: DatabaseSettings): void {
    this.#settings.set(id, { ...settings, changeId: randomUUID() })
    if (settings.allowAttach && !settings.blockReads) this.#attachable.add(id)
    else this.#attachable.delete(id)
  }

  delete(id: DatabaseId): void {
    this.#settings.delete(id)
    this.#attachable.delete(id)
  }

  isAttachable(id: DatabaseId): boolean {
    return this.#attachable.has(id)
  }

  listAttachable(): readonly DatabaseId[] {
    return [...this.#attachable]
  }
}
