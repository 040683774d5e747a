import { type Client, type ClientConfig, createClient } from '@batonsql/core'
import type { Driver, QueryCompiler, TransactionSettings } from 'kysely'
import { BatonConnection } from './connection.ts'
import type { BatonDialectConfig } from './dialect-config.ts'
import { beginQuery, COMMIT, ROLLBACK, savepointQuery } from './query-command.ts'
import { installDeadlockDetection } from './row-loop-deadlock.ts'

type CompileQuery = QueryCompiler['compileQuery']

const MODES = { 'read only': 'readonly', 'read write': 'immediate' } as const

/** Creates connections. A pool is not needed, because a connection opens a stream only when it needs one. */
export class BatonDriver implements Driver {
  readonly #client: Client
  readonly #ownsClient: boolean
  readonly #transactionMode: 'immediate' | 'deferred'
  readonly #connections = new Set<BatonConnection>()

  constructor(config: BatonDialectConfig) {
    const {
      client,
      transactionMode = 'immediate',
      transactionalMigrations: _transactionalMigrations,
      ...clientConfig
    } = config
    this.#ownsClient = client === undefined
    this.#client = client ?? createClient(clientConfig as ClientConfig)
    this.#transactionMode = transactionMode
    // for all Kysely instances of the process
    installDeadlockDetection()
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<BatonConnection> {
    const connection = new BatonConnection(this.#client)
    this.#connections.add(connection)
    return connection
  }

  /** Ignores the isolation level: SQLite is serializable, which satisfies all of them. */
  async beginTransaction(connection: BatonConnection, { accessMode }: TransactionSettings): Promise<void> {
    const mode = accessMode ? MODES[accessMode] : this.#transactionMode
    await connection.executeQuery(beginQuery(mode))
  }

  async commitTransaction(connection: BatonConnection): Promise<void> {
    await connection.executeQuery(COMMIT)
  }

  async rollbackTransaction(connection: BatonConnection): Promise<void> {
    // Kysely also calls it after a failed commit and for a transaction that was lost
    if (connection.inTransaction) await connection.executeQuery(ROLLBACK)
    else await connection.leaveTransaction()
  }

  async savepoint(connection: BatonConnection, name: string, compile: CompileQuery): Promise<void> {
    await connection.executeQuery(savepointQuery('savepoint', name, compile))
  }

  async rollbackToSavepoint(connection: BatonConnection, name: string, compile: CompileQuery): Promise<void> {
    await connection.executeQuery(savepointQuery('rollback to', name, compile))
  }

  async releaseSavepoint(connection: BatonConnection, name: string, compile: CompileQuery): Promise<void> {
    await connection.executeQuery(savepointQuery('release', name, compile))
  }

  /** Never rejects: an error would replace the result of the query. */
  async releaseConnection(connection: BatonConnection): Promise<void> {
    this.#connections.delete(connection)
    await connection.release()
  }

  async destroy(): Promise<void> {
    await Promise.all([...this.#connections].map((connection) => connection.release()))
    this.#connections.clear()
    if (this.#ownsClient) await this.#client.close()
  }
}
