import {
  type DatabaseIntrospector,
  type Dialect,
  type DialectAdapter,
  type Driver,
  type Kysely,
  type QueryCompiler,
} from 'kysely'
import { BatonAdapter } from './adapter.ts'
import type { BatonDialectConfig } from './dialect-config.ts'
import { BatonDriver } from './driver.ts'
import { BatonIntrospector } from './introspector.ts'
import { BatonQueryCompiler } from './query-compiler.ts'

const EXPECTED = 'expected a configuration with either `client` or `url`'
const OPTIONS = ['client', 'transactionMode', 'transactionalMigrations']

/**
 * Kysely's SQLite dialect for databases over HTTP.
 *
 * ```ts
 * const db = new Kysely<Database>({ dialect: new BatonDialect({ url, authToken }) })
 * ```
 */
export class BatonDialect implements Dialect {
  readonly #config: BatonDialectConfig

  /** Opens nothing. @throws TypeError when neither or both of `client` and `url` are given */
  constructor(config: BatonDialectConfig) {
    if (typeof config !== 'object' || config === null)
      throw new TypeError(`${EXPECTED}, not ${config === null ? 'null' : typeof config}`)
    if (config.client !== undefined && config.url !== undefined) throw new TypeError(`${EXPECTED}, not both`)
    if (config.client === undefined && config.url === undefined)
      throw new TypeError(
        'url' in config
          ? 'url is undefined: is its environment variable set?'
          : `${EXPECTED}, not one of ${Object.keys(config).join(', ') || 'nothing'}`,
      )
    if (config.client !== undefined) {
      for (const name of Object.keys(config))
        if (!OPTIONS.includes(name))
          throw new TypeError(
            `unknown option \`${name}\`; beside \`client\` the options are ${OPTIONS.slice(1).join(', ')}`,
          )
    }
    const { transactionMode = 'immediate' } = config
    if (transactionMode !== 'immediate' && transactionMode !== 'deferred')
      throw new TypeError(
        `\`transactionMode\` must be 'immediate' or 'deferred', not '${String(transactionMode)}'`,
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
