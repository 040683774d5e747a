import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import { asNotApplied, SqlError, toProtocolError } from '../base/errors.ts'
import type { WireError } from '../base/wire.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { type Client, getHttp } from '../client/client.ts'
import { withIndex } from '../codec/batch.ts'
import { CLOSE, decodePipeline, pipelineBody } from '../codec/pipeline.ts'
import { encodeStatement } from '../codec/statement.ts'
import { unwrap } from '../http/http.ts'
import { READ } from '../http/policies.ts'
import type { CallOptions } from '../options.ts'
import { splitStatements } from '../sql/script.ts'

/** The description of a statement. */
export interface StatementDescription {
  /** Parameters in order; `name` is as written in the SQL, or null for `?` and for unused numbers below the highest `?NNN`. */
  readonly params: readonly { readonly name: string | null }[]
  /** Columns of the result; `declaredType` is null for expressions and for columns without a type. */
  readonly columns: readonly { readonly name: string; readonly declaredType: string | null }[]
  /** Whether it is an EXPLAIN. */
  readonly isExplain: boolean
  /** Whether the statement itself changes no rows and no schema. Also true for BEGIN, COMMIT, savepoints and ATTACH. */
  readonly isReadOnly: boolean
}

interface WireDescription {
  readonly params: readonly { readonly name: string | null }[]
  readonly cols: readonly { readonly name: string; readonly decltype: string | null }[]
  readonly is_explain: boolean
  readonly is_readonly: boolean
}

type WireDescribeResult =
  | { readonly type: 'ok'; readonly response: { readonly result: WireDescription } }
  | { readonly type: 'error'; readonly error: WireError }

/**
 * Returns the server's description of a statement: its parameters and columns, and whether it is read-only. Runs nothing.
 * @throws SqlError if the server cannot parse the statement, or it refers to something that does not exist; SyntaxError for an
 * unterminated quote or comment; TypeError unless it is a single statement; RangeError for a lone surrogate
 */
export async function describe(
  db: Client,
  sql: string,
  options: CallOptions = {},
): Promise<StatementDescription> {
  checkOptions(options, CALL_OPTIONS)
  // the server would silently ignore all but the first
  const { length } = splitStatements(sql)
  if (length !== 1) throw new TypeError(`describe takes one statement, not ${length}`)
  const { json } = encodeStatement(sql)
  const http = getHttp(db)
  http.lifetime.begin()
  try {
    const body = (index: string | null): string =>
      pipelineBody([`{"type":"describe",${withIndex(json, index).slice(1)}`, CLOSE])
    const { signal, timeoutMs } = options
    const deadline = http.deadline(timeoutMs)
    const call = { signal, deadline, limiter: http.reads, policy: READ, needsIndex: true }
    return unwrap(await http.exchange('/v2/pipeline', body, call, (text) => read(text, sql)))
  } catch (error) {
    throw withCallerStack(asNotApplied(error), [{ sql }])
  } finally {
    http.lifetime.end()
  }
}

function read(text: string, sql: string): StatementDescription {
  try {
    const [result] = decodePipeline(text).results as unknown as readonly WireDescribeResult[]
    if (result?.type === 'error') throw new SqlError(result.error, sql, null, [], 'not_applied')
    const {
      params,
      cols,
      is_explain: isExplain,
      is_readonly: isReadOnly,
    } = (result as WireDescribeResult & { type: 'ok' }).response.result
    return {
      params: params.map(({ name }) => ({ name })),
      columns: cols.map(({ name, decltype }) => ({ name, declaredType: decltype ?? null })),
      isExplain,
      isReadOnly,
    }
  } catch (error) {
    throw toProtocolError(error)
  }
}
