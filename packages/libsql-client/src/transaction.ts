import { SqlError, type TransactionMode } from '@batonsql/core'
import { type Stream, splitStatements } from '@batonsql/core/adapter'
import {
  type InArgs,
  type InStatement,
  LibsqlError,
  type ResultSet,
  type Transaction,
} from '@libsql/core/api'
import { noIndex, rejectControl, rejectForeignKeys, withLibsqlErrors } from './errors.ts'
import { toResultSet } from './to-result-set.ts'
import { type AnyStatement, toStatement, toStatements } from './to-statement.ts'

/**
 * A transaction that lasts until `commit`, `rollback` or `close`, or until the server ends it. BEGIN is sent with its first statement.
 */
export class HttpTransaction implements Transaction {
  readonly #stream: Stream
  /** Whether the next call sends BEGIN. */
  #isFirst = true

  /** @private */
  constructor(stream: Stream, mode: TransactionMode) {
    this.#stream = stream
    stream.begin(mode)
  }

  get closed(): boolean {
    return !this.#stream.isOpen || !this.#stream.inTransaction
  }

  async execute(stmt: InStatement): Promise<ResultSet>
  async execute(sql: string, args?: InArgs): Promise<ResultSet>
  async execute(statement: AnyStatement, args?: InArgs): Promise<ResultSet> {
    this.#checkOpen()
    const run = async (): Promise<ResultSet> => {
      const batonStatement = toStatement(statement, args)
      rejectControl(batonStatement.sql, ['begin'])
      rejectForeignKeys(batonStatement.sql)
      const result = this.#begin(this.#stream.execute(batonStatement, undefined, { rowMode: 'array' }))
      // a COMMIT or ROLLBACK ends the transaction as soon as it is queued; its stream is closed in the same request
      if (this.closed) this.close()
      return toResultSet(await result)
    }
    return await withLibsqlErrors(run, failedIndex)
  }

  async batch(statements: (InStatement | [string, InArgs?])[]): Promise<ResultSet[]> {
    this.#checkOpen()
    const run = async (): Promise<ResultSet[]> => {
      const batonStatements = toStatements(statements)
      for (const { sql } of batonStatements) rejectInside(sql)
      const results = this.#begin(this.#stream.batch(batonStatements, { rowMode: 'array' }))
      return (await results).map(toResultSet)
    }
    return await withLibsqlErrors(run, failedIndex)
  }

  async executeMultiple(sql: string): Promise<void> {
    this.#checkOpen()
    const run = async (): Promise<void> => {
      const statements = splitStatements(sql)
      for (const { sql: statement } of statements) rejectInside(statement)
      this.#isFirst = false
      await this.#stream.batch(statements)
    }
    await withLibsqlErrors(run, noIndex)
  }

  /**
   * Returns the result of a call. If it was the first, whose request contains BEGIN, and the server could not parse it, closes the
   * transaction, as the original does.
   */
  async #begin<T>(result: Promise<T>): Promise<T> {
    const isFirst = this.#isFirst
    this.#isFirst = false
    try {
      return await result
    } catch (error) {
      if (isFirst && error instanceof SqlError && isParseError(error)) this.close()
      throw error
    }
  }

  async commit(): Promise<void> {
    this.#checkOpen('Cannot commit the transaction because it is already closed')
    await this.#finish(this.#stream.commit())
  }

  async rollback(): Promise<void> {
    if (!this.closed) await this.#finish(this.#stream.rollback())
  }

  close(): void {
    void this.#stream.close()
  }

  /** Closes the stream in the same tick, so that this shares a request with the end of the transaction. */
  async #finish(endResult: Promise<void>): Promise<void> {
    const closing = this.#stream.close()
    await withLibsqlErrors(() => endResult)
    await closing
  }

  #checkOpen(message = 'Cannot execute statements because the transaction is closed'): void {
    if (this.closed) throw new LibsqlError(message, 'TRANSACTION_CLOSED')
  }
}

/** Rejects statements that a batch in a transaction must not contain. @throws LibsqlError */
function rejectInside(sql: string): void {
  rejectControl(sql)
  rejectForeignKeys(sql)
}

/**
 * Returns the index of a failed statement. In the original, each call in a transaction is a batch, so that a single statement has the
 * index 0. A statement that does not parse has none, nor does the implicit BEGIN.
 */
const failedIndex = (error: SqlError): number | null => {
  const hasIndex = !isParseError(error) && !error.sql?.startsWith('BEGIN ')
  return error.statementIndex ?? (hasIndex ? 0 : null)
}

/** Whether the parser of the server rejected the request as a whole. SQL_INPUT_ERROR concerns one statement, such as a missing table. */
const isParseError = ({ code }: SqlError): boolean => /^SQL_(?!INPUT)/.test(code)
