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

/** Runs a statement, or the statements of a batch. */
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

  /**
   * @internal adapters do not create attempts
   * @param write runs the batches of the writer
   */
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

  /** Rejects reads from now on. @internal */
  protected endReads(): void {
    this.#isReading = false
  }
}

/** `SqlExecutor` is abstract. */
class Writer extends SqlExecutor {}

/** Why an attempt has kept nothing and must be repeated. */
interface Failure {
  /** How to repeat it: as another attempt; or as the fallback, in a transaction, because its reads cannot be compared. */
  readonly repeatAs: 'attempt' | 'fallback'
  readonly error: ConflictError | SqlError
}

/**
 * An attempt that reads without a transaction. `runOptimistically` creates one for each run of the callback:
 * 1. The callback reads. Each read is recorded with its result.
 * 2. If it returns writes, `writer.batch` runs them after checks that repeat the reads, as one atomic batch.
 * 3. `check` runs the checks alone if there were no writes.
 * 4. If any of this has thrown, `findFailure` decides. Null means that the error is the result of the whole call.
 */
export class OptimisticAttempt extends Attempt {
  readonly #http: Http
  readonly #options: CallOptions
  readonly #coalescer: Coalescer
  readonly #reads: RecordedRead[] = []
  readonly #failedReads: SqlError[] = []
  /** Whether there are writes, whose batch checks the reads. */
  #hasWrites = false
  #failure: Failure | null = null

  constructor(http: Http, options: CallOptions) {
    super(
      options,
      (...args) => this.#read(...args),
      (...args) => this.#commit(...args),
    )
    this.#http = http
    this.#options = options
    this.#coalescer = new Coalescer(http)
  }

  readonly #read: Send = async (statements, scope, options) => {
    const unrecorded = statements.values()
    const onResult = (result: WireResult): void =>
      void this.#reads.push(recordRead(unrecorded.next().value as EncodedStatement, result))
    const context = { coalescer: this.#coalescer, isContinuation: true }
    try {
      return await run(this.#http, statements, scope, { ...options, mode: 'deferred', onResult }, context)
    } catch (error) {
      if (error instanceof SqlError) this.#failedReads.push(error)
      throw error
    }
  }

  readonly #commit: Send = async (statements, _scope, options) => {
    if (statements.length === 0) return [] // `check` follows
    this.#hasWrites = true
    this.#rejectFailedReads()
    return await this.#runChecked(statements, { ...options, mode: 'immediate' })
  }

  /** Without writes, checks that all reads have seen the same state. @throws ConflictError */
  async check(): Promise<void> {
    this.endReads()
    if (!this.#needsCheck) return
    this.#rejectFailedReads()
    await this.#runChecked([], { mode: 'deferred' })
  }

  /** Whether the reads must be checked in a request of their own. A batch of writes has checked them, and a single read saw one state. */
  get #needsCheck(): boolean {
    return !this.#hasWrites && this.#reads.length + this.#failedReads.length > 1
  }

  /** Rejects what a callback does after a failed read that it has caught: it depends on the failure, which cannot be compared. */
  #rejectFailedReads(): void {
    const [error] = this.#failedReads
    if (error) throw this.#failToCompare(error, 'one of them has failed')
  }

  /**
   * Decides whether the attempt must be repeated after an error. If the callback has thrown, the reason may be that its reads saw
   * different states, so they are checked. Never rejects.
   */
  async findFailure(reason: unknown): Promise<Failure | null> {
    const error = findDatabaseError(reason)
    // such as a TransportError: a check would fail too
    const hasNoResult = error !== null && !(error instanceof SqlError)
    if (this.#failure !== null || hasNoResult || this.#options.signal?.aborted) return this.#failure
    this.endReads()
    try {
      // a failed read counts, because it may have seen another state than the others, but only the others can be repeated and compared
      if (this.#needsCheck) await this.#runChecked([], { mode: 'deferred' })
    } catch {
      // apart from a conflict, which is recorded, a failed check says nothing about the callback's error
    }
    return this.#failure
  }

  async #runChecked(writes: EncodedStatement[], options: BatchOptions): Promise<Results> {
    const checks = this.#encodeChecks()
    const statements = [...checks, ...writes]
    const allOptions = { ...this.#options, ...options }
    try {
      const results = await run(this.#http, statements, 'atomic', allOptions, { isContinuation: true })
      return results.slice(checks.length)
    } catch (error) {
      if (!(error instanceof SqlError)) throw error
      const { statementIndex: index, code } = error
      // a check also fails if, for example, its table was dropped
      if (index !== null && index < checks.length)
        throw this.#fail('attempt', 'another transaction has changed what this one had read', error)
      // the server does not say which statement it could not parse: the fallback, a transaction, shows it
      if (index === null && code.startsWith('SQL_') && checks.length > 0) {
        this.#failure = { repeatAs: 'fallback', error }
        throw error
      }
      throw index === null ? error : withoutSteps(error, checks.length)
    }
  }

  #encodeChecks(): EncodedStatement[] {
    const cells = this.#reads.reduce((sum, { columnCount, rows }) => sum + columnCount * rows.length, 0)
    if (cells > MAX_COMPARED_CELLS)
      throw this.#failToCompare(new RangeError(`${cells} cells, more than ${MAX_COMPARED_CELLS}`))
    let checks: EncodedStatement[]
    try {
      checks = this.#reads.map(encodeReadCheck)
    } catch (cause) {
      throw this.#failToCompare(cause)
    }
    const length = checks.reduce((sum, { json }) => sum + json.length, 0)
    if (length > MAX_CHECK_LENGTH)
      throw this.#failToCompare(new RangeError(`${length} characters, more than ${MAX_CHECK_LENGTH}`))
    return checks
  }

  #failToCompare(cause: unknown, reason = (cause as Error).message): ConflictError {
    return this.#fail('fallback', `the reads cannot be compared (${reason})`, cause)
  }

  #fail(repeatAs: Failure['repeatAs'], message: string, cause: unknown): ConflictError {
    const error = new ConflictError(message, { cause })
    this.#failure = { repeatAs, error }
    return error
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

/**
 * Rejects what may write. A WITH counts as a write if it has a word such as DELETE, even in quotes, and even with the option
 * `readOnly: true`, because the server would execute a WITH that writes.
 */
function rejectWrite({ sql, kind }: EncodedStatement): void {
  const verb = getVerb(sql)
  if (!/^(?:select|values|with)$/.test(verb) || kind !== 'read')
    throw new TypeError(
      `${verb.toUpperCase() || 'this statement'} cannot be executed in an optimistic transaction, which reads first: return writes from the callback`,
    )
}
