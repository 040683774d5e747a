import { checkClient } from '@batonsql/core/adapter'
import type { DatabaseIntrospector, Dialect, DialectAdapter, Driver, Kysely, QueryCompiler } from 'kysely'
import { BatonAdapter } from './adapter.ts'
import type { BatonDialectConfig } from './dialect-config.ts'
import { BatonDriver } from './driver.ts'
import { BatonIntrospector } from './introspector.ts'
import { BatonQueryCompiler } from './query-compiler.ts'

const EXPECTED = 'expected a configuration with either `client` or `url`'

/**
 * Kysely's SQLite dialect for databases over HTTP.
 *
 * ```ts
 * const db = new Kysely<Database>({ dialect: new BatonDialect({ url, authToken }) })
 * ```
 * Kysely passes the values of a query on some time after `execute()` was called, as for every dialect: until the query has settled, do
 * not write to a buffer that it inserts.
 */
export class BatonDialect implements Dialect {
  readonly #config: BatonDialectConfig

  /**
   * Does not connect. `new Kysely` throws a TypeError for an invalid option of the client.
   * @throws TypeError if neither or both of `client` and `url` are given, if `client` is no Baton client or is given with a client option,
   * or for an invalid `transactionMode` or `transactionalMigrations`
   */
  constructor(config: BatonDialectConfig) {
    const {
      client,
      url,
      transactionMode = 'immediate',
      transactionalMigrations = false,
      ...otherOptions
    } = { ...config }
    if (client !== undefined && url !== undefined) throw new TypeError(`${EXPECTED}, not both`)
    if (client === undefined && url === undefined)
      throw new TypeError(`${EXPECTED}; both are undefined: is the environment variable for \`url\` set?`)
    if (client !== undefined) checkClient(client)
    const [clientOption] = Object.keys(otherOptions)
    if (client && clientOption)
      throw new TypeError(
        `\`${clientOption}\` cannot be combined with \`client\`: pass it to \`createClient\``,
      )
    if (transactionMode !== 'immediate' && transactionMode !== 'deferred')
      throw new TypeError(
        `\`transactionMode\` must be 'immediate' or 'deferred', not '${String(transactionMode)}'`,
      )
    if (typeof transactionalMigrations !== 'boolean')
      throw new TypeError(
        `\`transactionalMigrations\` must be a boolean, not ${typeof transactionalMigrations}`,
      )
    this.#config = Object.freeze({ ...config })
  }

  createDriver(): Driver {
    return new BatonDriver(this.#config)
  }

  createQueryCompiler(): QueryCompiler {
    return new BatonQueryCompiler()
  }

  createAdapter(): DialectAdapter {
    return new BatonAdapter({ supportsTransactionalDdl: this.#config.transactionalMigrations ?? false })
  }

  createIntrospector(db: Kysely<unknown>): DatabaseIntrospector {
    return new BatonIntrospector(db)
  }
}
