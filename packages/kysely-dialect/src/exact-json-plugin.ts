import { checkOptions } from '@batonsql/core/adapter'
import type {
  KyselyPlugin,
  PluginTransformQueryArgs,
  PluginTransformResultArgs,
  QueryResult,
  RootOperationNode,
  UnknownRow,
} from 'kysely'

/** Settings of an {@link ExactJSONResultsPlugin}. */
export interface ExactJSONResultsPluginOptions {
  /**
   * Decides whether a text that looks like JSON is parsed. Use it if a column may contain such texts that are not meant as JSON.
   * Called for texts in parsed JSON as well.
   * @default all are parsed
   */
  readonly shouldParse?: ((text: string, column: string) => boolean) | undefined
}

/**
 * Parses JSON in results, as Kysely's ParseJSONResultsPlugin does, but exactly: integers beyond 2^53 become bigints. They are rounded
 * only on old platforms, where `JSON.parse` does not pass the source text to its reviver. Text that looks like JSON but is not valid
 * JSON stays text. Use it with this package's `jsonArrayFrom`, `jsonObjectFrom` and `jsonBuildObject`, which keep all digits of REAL
 * values.
 *
 * ```ts
 * const db = new Kysely<Database>({ dialect, plugins: [new ExactJSONResultsPlugin()] })
 * ```
 */
export class ExactJSONResultsPlugin implements KyselyPlugin {
  readonly #shouldParse: (text: string, column: string) => boolean

  /** @throws TypeError for an invalid option */
  constructor(options: ExactJSONResultsPluginOptions = {}) {
    checkOptions(options, { shouldParse: 'function' })
    this.#shouldParse = options.shouldParse ?? (() => true)
  }

  transformQuery({ node }: PluginTransformQueryArgs): RootOperationNode {
    return node
  }

  async transformResult({ result }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    return { ...result, rows: result.rows.map((row) => this.#parseRow(row)) }
  }

  #parseRow(row: UnknownRow): UnknownRow {
    // unlike an assignment, this also defines a property named `__proto__`
    return Object.fromEntries(
      Object.entries(row).map(([column, value]) => [
        column,
        typeof value === 'string' ? this.#parse(value, column) : value,
      ]),
    )
  }

  #parse(text: string, column: string): unknown {
    if (!looksLikeJson(text) || !this.#shouldParse(text, column)) return text
    let hasUserFailed = false
    const parseNested = (nested: string): unknown => {
      try {
        return this.#parse(nested, column)
      } catch (error) {
        hasUserFailed = true
        throw error
      }
    }
    try {
      return JSON.parse(text, (_key, value: unknown, context?: { readonly source?: string }) => {
        // SQLite returns nested JSON from a subquery as text
        if (typeof value === 'string') return parseNested(value)
        if (typeof value !== 'number' || !Number.isInteger(value) || Number.isSafeInteger(value)) return value
        return /^-?\d+$/.test(context?.source ?? '') ? BigInt(context?.source as string) : value
      })
    } catch (error) {
      // not JSON, or nested too deeply; other errors are those of `shouldParse`
      if (!hasUserFailed && (error instanceof SyntaxError || error instanceof RangeError)) return text
      throw error
    }
  }
}

const looksLikeJson = (text: string): boolean =>
  (text.startsWith('{') && text.endsWith('}')) || (text.startsWith('[') && text.endsWith(']'))
