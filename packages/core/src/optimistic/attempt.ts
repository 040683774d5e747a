import { ConflictError, SqlError, StreamError, withoutSteps } from '../base/errors.ts'
import { withSignals } from '../base/join-signals.ts'
import { findDatabaseError } from '../base/violation.ts'
import type { WireResult } from '../base/wire.ts'
import { run } from '../client/run.ts'
import { SqlExecutor } from '../client/sql-executor.ts'
import { Transaction } from '../client/transaction.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { Http } from '../http/http.ts'
import type { BatchOptions, CallOptions } from '../options.ts'
import { Coalescer } from '../request/coalescer.ts'
import type { Results } from '../request/queued-call.ts'
import { getVerb } from '../sql/verb.ts'
import {
  encodeReadCheck,
  MAX_CHECK_LENGTH,
  MAX_COMPARED_CELLS,
  type RecordedRead,
  recordRead,
} from './read-check.ts'

type Send = (
  statements: EncodedStatement[],
  scope: 'autocommit' | 'atomic',
  options: BatchOptions,
) => Promise<Results>

/**
 * One run of a callback: reads, and then writes. Rejects writes among the reads, and PRAGMA and EXPLAIN, which cannot be repeated
 * exactly.
 */
export abstract class Attempt extends SqlExecutor {
  /**
   * For adapters: its batch applies the writes that the callback has returned, if the reads still have the same results. It is an
   * object of its own, so that a late batch of the callback is never taken for the writes.
   */
  readonly writer: Pick<SqlExecutor, 'execute' | 'batch'>
  #isReading = true

  /** @internal */
  constructor(callOptions: CallOptions, read: Send, write: Send) {
    super((statements, scope, options) => {
      if (!this.#isReading) throw new StreamError('STREAM_CLOSED', 'the callback has already ended')
      for (const statement of statements) rejectWrite(statement)
      return withSignals(callOptions.signal, options.signal, (signal) =>
        read(statements, scope, { ...options, signal }),
      )
    })
    this.writer = new Writer((statements, scope, options) => {
      this.endReads()
      return withSignals(callOptions.signal, options.signal, (signal) =>
        write(statements, scope, { ...options, signal }),
      )
    })
  }

  /** @internal */
  protected endReads(): void {
    this.#isReading = false
  }
}

class Writer extends SqlExecutor {}

/**
 * An attempt that reads without a transaction. After it has failed, `conflict`, `isComparable` and `parseError` tell `optimistic` what to
 * do next.
 */
export class OptimisticAttempt extends Attempt {
  readonly #http: Http
  readonly #options: CallOptions
  readonly #reads: RecordedRead[]
  readonly #failedReads: SqlError[]
  /** Whether the writes were sent, or would have been: from then on, nothing else is checked. */
  #isCommitting = false
  /** Set if the attempt kept nothing and must be repeated. */
  conflict: ConflictError | null = null
  /** Whether it can be repeated without a transaction: its reads can be compared. */
  isComparable = true
  /** Set if the server could not parse the batch. */
  parseError: SqlError | null = null

  constructor(http: Http, options: CallOptions) {
    const reads: RecordedRead[] = []
    const failedReads: SqlError[] = []
    const coalescer = new Coalescer(http)
    const read: Send = async (statements, scope, readOptions) => {
      const record = statements.values()
      const onResult = (result: WireResult): void =>
        void reads.push(recordRead(record.next().value as EncodedStatement, result))
      try {
        const deferred = { ...readOptions, mode: 'deferred', onResult } as const
        return await run(http, statements, scope, deferred, { coalescer, isContinuation: true })
      } catch (error) {
        if (error instanceof SqlError) failedReads.push(error)
        throw error
      }
    }
    super(options, read, (statements, _scope, writeOptions) => this.#commit(statements, writeOptions))
    this.#http = http
    this.#options = options
    this.#reads = reads
    this.#failedReads = failedReads
  }

  async #commit(statements: EncodedStatement[], options: BatchOptions): Promise<Results> {
    if (statements.length === 0) {
      await this.check()
      return []
    }
    this.#isCommitting = true
    this.#rejectFailedReads()
    return await this.#runChecked(statements, { ...options, mode: 'immediate' })
  }

  /** Checks that all reads have seen the same state, if there are several. @throws ConflictError */
  async check(): Promise<void> {
    this.endReads()
    if (this.#isCommitting || !this.#hasSeveralReads) return
    this.#rejectFailedReads()
    await this.#runChecked([], { mode: 'deferred' })
  }

  get #hasSeveralReads(): boolean {
    return this.#reads.length + this.#failedReads.length > 1
  }

  /** Rejects what a callback does after a failed read that it has caught: it depends on the failure, which cannot be compared. */
  #rejectFailedReads(): void {
    const [error] = this.#failedReads
    if (error) throw this.#failToCompare(error, 'one of them has failed')
  }

  /** Checks the reads of a callback that has thrown: if they saw different states, sets `conflict`. Never rejects. */
  async checkAfter(reason: unknown): Promise<void> {
    const error = findDatabaseError(reason)
    const isConnectionError = error !== null && !(error instanceof SqlError)
    if (this.conflict !== null || isConnectionError || this.#options.signal?.aborted) return
    this.endReads()
    try {
      // a failed read is not compared: its error is assumed to be the reason
      if (!this.#isCommitting && this.#hasSeveralReads) await this.#runChecked([], { mode: 'deferred' })
    } catch {
      // apart from a conflict, a failed check says nothing about the callback's error
    }
  }

  async #runChecked(writes: EncodedStatement[], options: BatchOptions): Promise<Results> {
    const checks = this.#encodeChecks()
    try {
      const results = await run(
        this.#http,
        [...checks, ...writes],
        'atomic',
        { ...this.#options, ...options },
        { isContinuation: true },
      )
      return results.slice(checks.length)
    } catch (error) {
      if (!(error instanceof SqlError)) throw error
      const { statementIndex: index, code } = error
      // a check also fails if, for example, its table was dropped
      if (index !== null && index < checks.length)
        throw this.#fail('another transaction has changed what this one had read', error)
      // the server does not say which statement it could not parse: the fallback, a transaction, shows it
      if (index === null && code.startsWith('SQL_') && checks.length > 0) {
        this.parseError = error
        throw this.#failToCompare(error)
      }
      throw index === null ? error : withoutSteps(error, checks.length)
    }
  }

  #encodeChecks(): EncodedStatement[] {
    const cells = this.#reads.reduce((sum, { columnCount, rows }) => sum + columnCount * rows.length, 0)
    if (cells > MAX_COMPARED_CELLS)
      throw this.#failToCompare(new RangeError(`the reads returned ${cells} cells`))
    let checks: EncodedStatement[]
    try {
      checks = this.#reads.map(encodeReadCheck)
    } catch (cause) {
      throw this.#failToCompare(cause)
    }
    const length = checks.reduce((sum, { json }) => sum + json.length, 0)
    if (length > MAX_CHECK_LENGTH)
      throw this.#failToCompare(new RangeError(`the reads take ${length} characters`))
    return checks
  }

  #failToCompare(cause: unknown, reason = `at most ${MAX_COMPARED_CELLS} cells, 4 MB`): ConflictError {
    this.isComparable = false
    return this.#fail(`the reads cannot be compared (${reason})`, cause)
  }

  #fail(message: string, cause: unknown): ConflictError {
    this.conflict = new ConflictError(message, { cause })
    return this.conflict
  }
}

/** An attempt in a transaction, which holds the write lock from its beginning. */
export class TransactionAttempt extends Attempt {
  constructor(tx: Transaction, options: CallOptions) {
    const send: Send = (statements, scope, ownOptions) =>
      Transaction.withStream(tx, ownOptions, (stream, context) =>
        stream.run(statements, scope, ownOptions, context),
      )
    super(options, send, send)
  }
}

// a WITH counts as a write if it has a word such as DELETE, even in quotes; `readOnly` does not count, because the server would execute a
// WITH that writes
function rejectWrite({ sql, kind }: EncodedStatement): void {
  const verb = getVerb(sql)
  if (!/^(?:select|values|with)$/.test(verb) || kind !== 'read')
    throw new TypeError(
      `${verb.toUpperCase() || 'this statement'} cannot be executed in an optimistic transaction, which reads first: return writes from the callback`,
    )
}
