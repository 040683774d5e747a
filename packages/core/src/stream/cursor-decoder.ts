import { ProtocolError, SqlError, toProtocolError } from '../base/errors.ts'
import type { WireColumn, WireError, WireValue } from '../base/wire.ts'
import { ignoredConditionsError } from '../codec/guard.ts'
import { type ArrayRow, type ObjectRow, rowDecoder } from '../codec/result.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import { UNUSUAL_ERROR } from '../http/http.ts'
import type { RowsOptions } from '../options.ts'
import { asErrorOfWrite, ENDED_BY_SERVER, type SqlRequest, takeoverLoss } from '../request/sql-request.ts'
import type { ServerStream } from './server-stream.ts'

/** One line of the response to a cursor request. */
type CursorEntry =
  | { readonly baton: string | null }
  | { readonly type: 'step_begin'; readonly step: number; readonly cols: readonly WireColumn[] }
  | { readonly type: 'row'; readonly row: readonly WireValue[] }
  | {
      readonly type: 'step_end'
      readonly affected_row_count: number
      readonly last_insert_rowid?: number | null
    }
  | { readonly type: 'step_error'; readonly step: number; readonly error: WireError }
  | { readonly type: 'error'; readonly error: WireError }
  | { readonly type: 'replication_index'; readonly replication_index: number | string | null }

export type Row = ObjectRow | ArrayRow

export const isRow = (line: string): boolean => line.startsWith('{"type":"row"')

/** Decodes the response to the request of one cursor, line by line. */
export class CursorDecoder {
  /** Whether `onColumns` has thrown an error. */
  hasCallbackFailed = false
  readonly #stream: ServerStream
  readonly #request: SqlRequest
  readonly #statement: EncodedStatement
  readonly #options: RowsOptions
  #decode: ((cells: readonly WireValue[]) => Row) | null = null
  /** Whether the statement has run, at least up to its first row. */
  #hasRun = false
  /** Whether the statement has run to its end. */
  #isComplete = false
  /** Whether the server has run a step that it had to skip. */
  #ignoresConditions = false

  constructor(stream: ServerStream, request: SqlRequest, statement: EncodedStatement, options: RowsOptions) {
    this.#stream = stream
    this.#request = request
    this.#statement = statement
    this.#options = options
  }

  /**
   * Reads one line. A promise only if it contains an error that must be translated, so that rows need no `await`.
   * @returns the row in it, if there is one
   * @throws SqlError; StreamError if the transaction was lost; ProtocolError; RangeError for an integer that is not exact; what
   * `onColumns` throws
   */
  read(line: string): readonly Row[] | Promise<readonly Row[]> {
    if (isRow(line) || !UNUSUAL_ERROR.test(line)) return this.#readEntry(line)
    return import('../http/translate-errors.ts').then(({ translateErrors }) =>
      this.#readEntry(translateErrors(line)),
    )
  }

  /** Calls the user's `onColumns`. */
  reportColumns(names: readonly string[]): void {
    try {
      this.#options.onColumns?.(names)
    } catch (error) {
      this.hasCallbackFailed = true
      throw error
    }
  }

  /** Checks that the response was complete. @throws ProtocolError; StreamError if the server has skipped the statement */
  checkEnd(inTransaction: boolean): void {
    if (this.#ignoresConditions) throw ignoredConditionsError('not_applied')
    if (inTransaction && this.#decode === null) throw this.#stream.lose(ENDED_BY_SERVER)
    if (!this.#isComplete) throw new ProtocolError('the rows were truncated')
  }

  #readEntry(line: string): Row[] {
    try {
      return this.#handleEntry(JSON.parse(line) as CursorEntry)
    } catch (error) {
      if (this.hasCallbackFailed) throw error
      const reason = toProtocolError(error)
      throw this.#request.isReadOnly ? reason : asErrorOfWrite(reason)
    }
  }

  #handleEntry(entry: CursorEntry): Row[] {
    const { http, rowids } = this.#stream
    if (!('type' in entry)) this.#stream.setBaton(entry.baton)
    else if (entry.type === 'replication_index') http.replica.record(entry.replication_index)
    // the rest of the response is still read: the ROLLBACK of the test undoes the statement
    else if ((this.#ignoresConditions ||= this.#isFromTest(entry))) return []
    else if (entry.type === 'step_begin') {
      this.#decode = rowDecoder(entry.cols, http.config.intMode, this.#options.rowMode)
      this.reportColumns(entry.cols.map(({ name }) => name ?? ''))
    } else if (entry.type === 'row' && this.#decode) {
      this.#reportRun()
      return [this.#decode(entry.row)]
    } else if (entry.type === 'step_end') {
      this.#reportRun()
      rowids.read(entry, this.#statement)
      this.#isComplete = true
    } else if (entry.type === 'step_error' || entry.type === 'error') {
      rowids.forget()
      const outcome = this.#request.isReadOnly ? 'not_applied' : undefined
      const error = new SqlError(entry.error, this.#statement.sql, null, [], outcome)
      throw error.code === 'TRANSACTION_TIMEOUT' ? this.#stream.lose(takeoverLoss(error)) : error
    }
    return []
  }

  #reportRun(): void {
    if (!this.#hasRun) this.#stream.dispatch({ type: 'cursorHasRun' })
    this.#hasRun = true
  }

  /** Whether an entry shows that the server has run the step with which the request tests conditions. */
  #isFromTest(entry: CursorEntry): boolean {
    if (!('step' in entry) || !this.#request.isTest(entry.step)) return false
    return entry.type === 'step_begin' || entry.error.code !== 'TRANSACTION_TIMEOUT'
  }
}
