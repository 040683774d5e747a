import { type DatabaseId, type DatabaseSettings, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'

/** The settings of the databases of one server, which may not have applied the latest ones yet. */
export class SettingsTable {
  readonly #settings = new Map<DatabaseId, DatabaseSettings>()
  /** Databases that other databases may attach; usually few. */
  readonly #attachable = new Set<DatabaseId>()

  get(id: DatabaseId): DatabaseSettings {
    return this.#settings.get(id) ?? DEFAULT_SETTINGS
  }

  set(id: DatabaseId, settings: DatabaseSettings): void {
    this.#settings.set(id, settings)
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
