import { type Client as BatonClient, createClient as createBaton, executeMultiple } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import {
  type Client,
  type InArgs,
  type InStatement,
  LibsqlError,
  type Replicated,
  type ResultSet,
  type TransactionMode,
} from '@libsql/core/api'
import type { ExpandedConfig } from '@libsql/core/config'
import { encodeBaseUrl } from '@libsql/core/uri'
import { supportedUrlLink } from '@libsql/core/util'
import { noIndex, rejectControl, rejectForeignKeys, withLibsqlErrors } from './errors.ts'
import { type ClientConfig, expand } from './expand.ts'
import { toResultSet } from './to-result-set.ts'
import { type AnyStatement, toStatement, toStatements } from './to-statement.ts'
import { HttpTransaction } from './transaction.ts'

export * from '@libsql/core/api'
export { HttpTransaction }

/** Request timeout in ms, the default of Node's `fetch`, which the original uses. */
const REQUEST_TIMEOUT_MS = 300_000

/** Key of the Baton client: a registered symbol, so that `baton` accepts the client of another copy of this package. */
const BATON_KEY = Symbol.for('@batonsql/libsql-client')

/** Baton's names for the transaction modes of @libsql/client. */
const BATON_MODES = { write: 'immediate', read: 'readonly', deferred: 'deferred' } as const

/** Creates a client. @throws LibsqlError for an invalid URL or option */
export function createClient(config: ClientConfig): Client {
  return _createClient(expand(config, true))
}

/** Creates a client from an expanded configuration. @private */
export function _createClient(config: ExpandedConfig): HttpClient {
  const { scheme, tls, authority, path } = config
  if (!/^(?:http|ws)s?$/.test(scheme))
    throw new LibsqlError(
      `The HTTP client supports only "libsql:", "https:" and "http:" URLs, got "${scheme}:". For more information, please read ${supportedUrlLink}`,
      'URL_SCHEME_NOT_SUPPORTED',
    )
  if (config.encryptionKey !== undefined)
    throw new LibsqlError(
      'Encryption key is not supported by the remote client.',
      'ENCRYPTION_KEY_NOT_SUPPORTED',
    )
  const isSecure = scheme === 'https' || scheme === 'wss'
  if (isSecure !== tls)
    throw new LibsqlError(
      `A "${scheme}:" URL cannot opt ${tls ? 'into TLS by using ?tls=1' : 'out of TLS by using ?tls=0'}`,
      'URL_INVALID',
    )
  return new HttpClient(encodeBaseUrl(isSecure ? 'https' : 'http', authority, path), config)
}

/** A client over HTTP. */
export class HttpClient implements Client {
  readonly protocol = 'http'
  readonly #open: () => BatonClient
  #baton: BatonClient
  /** Open transactions, which are closed with the client, so that none keeps the write lock. */
  #transactions: HttpTransaction[] = []
  #isClosed = false

  /** @private */
  constructor(url: URL, config: ExpandedConfig) {
    const { authToken, intMode, concurrency, fetch, remoteEncryptionKey } = config
    const encryptionKey = remoteEncryptionKey?.trim()
    const headers = encryptionKey ? { 'x-turso-encryption-key': encryptionKey } : {}
    this.#open = () =>
      createBaton({
        url,
        authToken: authToken?.trim() || undefined,
        intMode,
        concurrency: Math.max(1, Math.ceil(concurrency)),
        headers,
        // a `fetch` written for @libsql/client expects a single argument, a Request
        fetch: fetch
          ? (input, init) => (fetch as typeof globalThis.fetch)(new Request(input, init))
          : undefined,
        requestTimeoutMs: REQUEST_TIMEOUT_MS,
        // the original limits none of these
        transactionTimeoutMs: Infinity,
        writeLockTimeoutMs: Infinity,
        queueLimit: Number.MAX_SAFE_INTEGER,
      })
    this.#baton = this.#open()
  }

  /** @private */
  get [BATON_KEY](): BatonClient {
    return this.#baton
  }

  get closed(): boolean {
    return this.#isClosed
  }

  async execute(statement: AnyStatement, args?: InArgs): Promise<ResultSet> {
    this.#checkOpen()
    return await withLibsqlErrors(async () => {
      const batonStatement = toStatement(statement, args)
      rejectControl(batonStatement.sql, ['begin', 'commit', 'rollback', 'savepoint'])
      return toResultSet(await this.#baton.execute(batonStatement, undefined, { rowMode: 'array' }))
    })
  }

  async batch(
    statements: (InStatement | [string, InArgs?])[],
    mode: TransactionMode = 'deferred',
  ): Promise<ResultSet[]> {
    return await this.#batch(statements, mode, 'on')
  }

  /** Like `batch`, with foreign keys disabled. */
  async migrate(statements: InStatement[]): Promise<ResultSet[]> {
    return await this.#batch(statements, 'deferred', 'off')
  }

  async #batch(statements: readonly AnyStatement[], mode: TransactionMode, foreignKeys: 'on' | 'off') {
    this.#checkOpen()
    return await withLibsqlErrors(async () => {
      const options = { mode: toBatonMode(mode), foreignKeys, rowMode: 'array' } as const
      const batonStatements = toStatements(statements)
      for (const { sql } of batonStatements) {
        rejectControl(sql)
        if (foreignKeys === 'on') rejectForeignKeys(sql)
      }
      return (await this.#baton.batch(batonStatements, options)).map(toResultSet)
    })
  }

  async transaction(mode: TransactionMode = 'write'): Promise<HttpTransaction> {
    this.#checkOpen()
    const transaction = new HttpTransaction(openStream(this.#baton), toBatonMode(mode))
    this.#transactions = [...this.#transactions.filter(({ closed }) => !closed), transaction]
    return transaction
  }

  async executeMultiple(sql: string): Promise<void> {
    this.#checkOpen()
    await withLibsqlErrors(() => executeMultiple(this.#baton, sql), noIndex)
  }

  sync(): Promise<Replicated> {
    throw new LibsqlError('sync not supported in http mode', 'SYNC_NOT_SUPPORTED')
  }

  /** Rejects new calls, and rolls back open transactions. Calls in flight continue. */
  close(): void {
    this.#isClosed = true
    for (const transaction of this.#transactions) transaction.close()
    this.#transactions = []
    void this.#baton.close({ drainMs: REQUEST_TIMEOUT_MS })
  }

  /** Closes the client and opens it again. */
  // oxlint-disable-next-line typescript/no-misused-promises -- the original also returns a promise
  async reconnect(): Promise<void> {
    this.close()
    this.#baton = this.#open()
    this.#isClosed = false
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new LibsqlError('the client is closed', 'UNKNOWN')
  }
}

function toBatonMode(mode: TransactionMode) {
  if (Object.hasOwn(BATON_MODES, mode)) return BATON_MODES[mode]
  throw new RangeError('Unknown transaction mode, supported values are "write", "read" and "deferred"')
}

/**
 * Returns the Baton client that a client of this package uses, so that a program can be migrated call by call. It is closed with
 * that client.
 * @throws TypeError for any other client, such as one for a file
 */
export function baton(client: Client): BatonClient {
  const batonClient = (client as Partial<HttpClient> | undefined)?.[BATON_KEY]
  if (!batonClient) throw new TypeError('not an HTTP client of @batonsql/libsql-client')
  return batonClient
}
