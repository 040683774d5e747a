import { randomUUID } from 'node:crypto'
import { mkdir, rm, truncate } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import {
  BackendError,
  type DatabaseId,
  type DatabaseSettings,
  type DatabaseSource,
  DEFAULT_SETTINGS,
  type ExportedFile,
  hasDatabaseFile,
  MissingFileError,
  newDatabaseId,
  setAside,
} from '@batonsql/server-common/backend'
import { copyOpenDatabase, importFile } from './copy-database.ts'
import { retryTransient, type SqldNamespaceConfig, type SqldNamespaceSource } from './process/admin.ts'
import type { InternalRequests } from './process/internal-requests.ts'
import { isConnectionError, type Upstream, type UpstreamOptions } from './process/upstream.ts'
import type { IdentifiedSettings } from './settings-table.ts'

/** Practically unlimited; for the server, null means "unchanged". */
const NO_SIZE_LIMIT = '1000pb'

/** Creates, configures, copies and removes the databases of one server, which calls them namespaces, and their files. */
export class Namespaces {
  readonly #upstream: Upstream
  readonly #options: UpstreamOptions

  constructor(upstream: Upstream, options: UpstreamOptions) {
    this.#upstream = upstream
    this.#options = options
  }

  get #isRemote(): boolean {
    return this.#options.remote !== undefined
  }

  /** Removes the files of exports and imports that a killed process has left. */
  async removeTemporaryFiles(): Promise<void> {
    await rm(this.#temporaryFolder, { recursive: true, force: true })
  }

  /** Checks that databases are separate: without `--enable-namespaces`, all names share one database. */
  async checkSeparate(internal: InternalRequests): Promise<void> {
    const [firstId, secondId] = [newDatabaseId(), newDatabaseId()]
    try {
      for (const id of [firstId, secondId]) await this.create(id, { type: 'empty' }, DEFAULT_SETTINGS)
      // if both names refer to one database, the second table already exists
      for (const id of [firstId, secondId]) {
        const text = await internal.fetchResult(id, 'CREATE TABLE baton_probe (a)')
        if (text.includes('"type":"error"')) throw new Error(text)
      }
    } catch (error) {
      throw new Error(
        'this libsql-server does not keep databases separate; start it with --enable-namespaces',
        { cause: error },
      )
    } finally {
      for (const id of [firstId, secondId]) await this.remove(id).catch(() => {})
    }
  }

  async setAsideUnregistered(registeredIds: ReadonlySet<DatabaseId>): Promise<readonly DatabaseId[]> {
    if (this.#isRemote) return []
    return (await setAside(this.#dataFolder, registeredIds)).map(({ id }) => id)
  }

  async create(id: DatabaseId, source: DatabaseSource, settings: DatabaseSettings): Promise<void> {
    const config = this.#buildConfig(settings)
    let isRetry = false
    const createOnce = async (): Promise<void> => {
      // the server has already created the rejected database, possibly without the pending migration
      if (isRetry) await this.#upstream.withAdmin((admin) => admin.discard(id, config))
      isRetry = true
      await this.#createFrom(source, id, config)
    }
    for (;;) {
      const { restartCount } = this.#upstream
      try {
        return await retryTransient(createOnce)
      } catch (error) {
        // interrupted by a restart, whatever the error
        if (restartCount === this.#upstream.restartCount) throw error
      }
    }
  }

  async #createFrom(source: DatabaseSource, id: DatabaseId, config: SqldNamespaceConfig): Promise<void> {
    const createOnServer = (from: SqldNamespaceSource = {}): Promise<void> =>
      this.#upstream.withAdmin((admin) => admin.create(id, config, from), false)
    if (source.type === 'fork' && !this.#isRemote) {
      // the server's own fork blocks all other changes, and takes longer than their time limit for 1 GB
      await this.#createWithFile(id, (file) => this.exportTo(source.from, file), createOnServer)
    } else if (source.type === 'fork') {
      await this.#upstream.withAdmin((admin) => admin.fork(source.from, id), false)
      // the fork starts with the original's keys
      await this.#upstream.withAdmin((admin) => admin.configure(id, config))
    } else if (source.type === 'file') {
      const write = (file: string): Promise<void> => importFile(source.file, file, this.#temporaryFolder)
      await this.#createWithFile(id, write, createOnServer)
    } else await createOnServer(namespaceSource(source))
  }

  /** Creates a database whose file is already in place. */
  async #createWithFile(
    id: DatabaseId,
    write: (file: string) => Promise<void>,
    createOnServer: () => Promise<void>,
  ): Promise<void> {
    const to = this.getFile(id)
    // an interrupted removal may have left the folder
    await rm(dirname(to), { recursive: true, force: true })
    await mkdir(dirname(to), { recursive: true })
    try {
      await write(to)
      await createOnServer()
    } catch (error) {
      await rm(dirname(to), { recursive: true, force: true })
      // the server crashes on a damaged file
      throw isConnectionError(error) ? new BackendError('libsql-server cannot open the file') : error
    }
  }

  /** @throws BackendError for a remote server @throws MissingFileError instead of copying a missing file as an empty database */
  async exportTo(id: DatabaseId, file: string): Promise<void> {
    const from = this.getFile(id)
    if (!hasDatabaseFile(from)) throw new MissingFileError()
    await this.#upstream.ensureRunning()
    try {
      await copyOpenDatabase(from, file)
    } catch (error) {
      throw hasDatabaseFile(from) ? error : new MissingFileError()
    }
  }

  /** Exports a database to a temporary file. */
  async export(id: DatabaseId): Promise<ExportedFile> {
    const folder = this.#temporaryFolder
    await mkdir(folder, { recursive: true })
    const path = join(folder, `${randomUUID()}.db`)
    await this.exportTo(id, path)
    return { path, remove: async () => await rm(path, { force: true }) }
  }

  /**
   * Applies settings to a database.
   * @param getSettings called for each attempt, because they may have changed meanwhile
   * @returns false if the database does not exist
   */
  async configure(id: DatabaseId, getSettings: () => IdentifiedSettings): Promise<boolean> {
    // if the file were missing, the server would create an empty database
    if (!this.hasFile(id)) return false
    return await this.#upstream.withAdmin((admin) =>
      admin.configureIfExists(id, this.#buildConfig(getSettings())),
    )
  }

  /** Removes a database, if it exists. No request to it may be running. */
  async remove(id: DatabaseId): Promise<void> {
    const removeFromServer = (): Promise<void> => this.#upstream.withAdmin((admin) => admin.remove(id))
    await removeFromServer().catch(async (error: Error) => {
      // the server records the removal before it frees the space
      if (this.#isRemote || !error.message.includes('disk is full')) throw error
      await this.#emptyFiles(id)
      await removeFromServer()
    })
    // the server leaves behind a directory in which a file was created during the removal
    if (!this.#isRemote) await rm(dirname(this.getFile(id)), { recursive: true, force: true, maxRetries: 5 })
  }

  async #emptyFiles(id: DatabaseId): Promise<void> {
    const folder = dirname(this.getFile(id))
    for (const name of ['data', 'data-wal', 'wallog'])
      await truncate(join(folder, name)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error
      })
  }

  /** Whether a database has its file. Those of a remote server are not visible, and are assumed to exist. */
  hasFile(id: DatabaseId): boolean {
    return this.#isRemote || hasDatabaseFile(this.getFile(id))
  }

  /** @throws BackendError for a remote server */
  getFile(id: DatabaseId): string {
    if (this.#isRemote)
      throw new BackendError('the files of a remote libsql-server are not accessible; use /dump')
    return join(this.#dataFolder, id, 'data')
  }

  get #dataFolder(): string {
    return join(this.#options.directory, 'sqld', 'dbs')
  }

  get #temporaryFolder(): string {
    return join(this.#options.directory, 'exports')
  }

  #buildConfig(settings: IdentifiedSettings): SqldNamespaceConfig {
    const { sizeLimitBytes, allowAttach, blockReads, blockWrites, blockReason, changeId } = settings
    return {
      jwt_key: this.#getKeys(settings),
      max_db_size: sizeLimitBytes === null ? NO_SIZE_LIMIT : String(sizeLimitBytes),
      allow_attach: allowAttach,
      block_reads: blockReads,
      block_writes: blockWrites,
      // without a block, it is not shown to clients, and tells which settings a replica has received
      block_reason: blockReads || blockWrites || this.#isRemote ? (blockReason ?? undefined) : changeId,
    }
  }

  /** For a remote server, includes the keys of client tokens, because clients may send requests to its replicas directly. */
  #getKeys({ keys }: DatabaseSettings): string | undefined {
    const { isOpen, controlKey } = this.#options
    // undefined selects the server's key: a database with its own key would reject requests that its replicas forward
    if (!this.#isRemote) return undefined
    return isOpen ? undefined : [...keys, controlKey.publicPem].join('')
  }
}

/** Converts the source of a database to the admin API's format. */
function namespaceSource(source: Exclude<DatabaseSource, { type: 'fork' | 'file' }>): SqldNamespaceSource {
  switch (source.type) {
    case 'empty':
      return {}
    case 'schema':
      return { shared_schema: true }
    case 'schema-child':
      return { shared_schema_name: source.parent }
    default:
      return source satisfies never
  }
}
