import { ArgumentsError } from './arguments.ts'
import { checkCondition, evaluateCondition } from './condition.ts'
import { type Connection, type RunningStatement, ValueTooBigError } from './connection.ts'
import type { Database } from './database.ts'
import { asEngineError, resultErrorOf } from './engine-error.ts'
import { PipelineFailure } from './pipeline-failure.ts'
import type { BatchStep, Rights, StatementRequest } from './pipeline-types.ts'
import { encodeResult, type ResultColumn, type StatementResult, TextEncodingError } from './result-encoder.ts'
import { ResultError } from './result-error.ts'
import { identifier, upper } from './sql-scanner.ts'
import { firstStatement, type Statement } from './statement.ts'
import type { StoredTexts } from './stored-texts.ts'

const MAX_RESPONSE_CHARACTERS = 10_000_000
const PAUSE_AFTER_MS = 20

/** A statement of a program with what it is to be run with. */
interface Step {
  readonly statement: Statement
  readonly request: StatementRequest
}

/** What a batch answers: for each step a result, an error, or neither when it was skipped. */
export interface BatchOutcome {
  readonly results: readonly (string | null)[]
  readonly errors: readonly (ResultError | null)[]
}

/** Told of a running cursor; every call waits until the reader keeps up. */
export interface CursorSink {
  stepBegin(step: number, columns: readonly ResultColumn[]): Promise<void>
  row(row: string): Promise<void>
  stepEnd(result: StatementResult): Promise<void>
  stepError(step: number, error: ResultError): Promise<void>
}

/** One client's session: its connection and the programs it runs there. */
export class Session {
  readonly #database: Database
  readonly #connection: Connection
  readonly texts: StoredTexts
  readonly #busyWith: Int32Array
  #lastPause = 0
  #last: Promise<unknown> = Promise.resolve()
  /** Number of the call that is being answered. */
  call = 0

  /** `texts` are the client's stored texts; `busyWith` is shared with the watchdog: while the engine works, it holds the number of the call. */
  constructor(database: Database, texts: StoredTexts, busyWith: Int32Array) {
    this.texts = texts
    this.#database = database
    this.#connection = database.connect()
    this.#busyWith = busyWith
  }

  /**
   * Runs one thing at a time: a cursor may still be running when the next request comes. Until it is done the write
   * slot stays where it is.
   */
  exclusive<T>(run: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(() => {
      this.#lastPause = performance.now()
      return this.#connection.working(run)
    })
    this.#last = turn.catch(() => {})
    return turn
  }

  /** Waits for the client, who may take its time: the write slot does not wait with it. */
  waiting<T>(wait: () => Promise<T>): Promise<T> {
    return this.#connection.waiting(wait)
  }

  /** After a while of work, lets messages in: other sessions have their turn, and a client may have left. */
  async pause(): Promise<void> {
    if (performance.now() - this.#lastPause < PAUSE_AFTER_MS) return
    // messages are read between two rounds of immediates, not before the first
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    this.#lastPause = performance.now()
  }

  get isAutocommit(): boolean {
    return this.#connection.isAutocommit
  }

  close(): void {
    this.#connection.close()
  }

  /** Runs one statement and returns its result as JSON. */
  async execute(request: StatementRequest, rights: Rights): Promise<string> {
    const step = this.#prepareStep(request)
    this.#checkRights(step.statement, rights)
    if (this.#connection.takeTimeout()) throw transactionTimeout()
    const result = await this.#runStep(step, MAX_RESPONSE_CHARACTERS)
    return encodeResult(result, this.#database.replicationIndex)
  }

  /** Runs a batch; errors of its statements are part of the outcome. */
  async batch(steps: readonly BatchStep[], version: 2 | 3, rights: Rights): Promise<BatchOutcome> {
    const prepared = this.#prepareBatch(steps, version, rights)
    const results: (string | null)[] = []
    const errors: (ResultError | null)[] = []
    const isTimedOut = this.#connection.takeTimeout()
    let left = MAX_RESPONSE_CHARACTERS
    for (const [index, { condition }] of steps.entries()) {
      results.push(null)
      errors.push(isTimedOut ? transactionTimeout() : null)
      if (isTimedOut || !this.#isMet(condition, results)) continue
      try {
        const text = encodeResult(await this.#runStep(prepared[index] as Step, left), null)
        results[index] = text
        left -= text.length
      } catch (error) {
        if (!(error instanceof ResultError)) throw error
        if (error.code === 'RESPONSE_TOO_LARGE') throw error
        errors[index] = error
      }
      await this.pause()
    }
    return { results, errors }
  }

  /** Runs a batch and hands the rows over as they come. */
  async cursor(
    steps: readonly BatchStep[],
    rights: Rights,
    sink: CursorSink,
    onReady: () => void,
  ): Promise<void> {
    const prepared = this.#prepareBatch(steps, 3, rights)
    onReady()
    const isTimedOut = this.#connection.takeTimeout()
    const results: (string | null)[] = []
    for (const [index, { condition }] of steps.entries()) {
      results.push(null)
      if (isTimedOut) await sink.stepError(index, transactionTimeout())
      if (isTimedOut || !this.#isMet(condition, results)) continue
      try {
        await this.#streamStep(prepared[index] as Step, index, sink)
        results[index] = 'done'
      } catch (error) {
        if (!(error instanceof ResultError)) throw error
        await sink.stepError(index, error)
      }
    }
  }

  /** Runs all statements of a text; the first failing one ends it. */
  async sequence(text: string, rights: Rights): Promise<void> {
    const statements = this.#parse(text)
    for (const statement of statements) this.#checkRights(statement, rights)
    if (this.#connection.takeTimeout()) throw transactionTimeout()
    for (const statement of statements) {
      await this.#runStep({ statement, request: NO_ARGUMENTS }, Number.POSITIVE_INFINITY)
      await this.pause()
    }
  }

  /** Describes the first statement of a text as JSON. */
  describe(text: string, rights: Rights): string {
    if (!rights.read) throw this.#forbidden('Read')
    const statement = firstStatement(text)
    if (statement === null) return '{"params":[],"cols":[],"is_explain":false,"is_readonly":true}'
    const prepared = this.#engineCall(statement.sql, () => this.#connection.check(statement.sql))
    const columns = prepared.reader ? prepared.columns() : []
    return JSON.stringify({
      params: statement.parameters.map((name) => ({ name })),
      cols: columns.map(({ name, type }) => ({ name, decltype: type })),
      is_explain: statement.kind === 'explain',
      is_readonly: !statement.needsWriteSlot && statement.kind !== 'unknown',
    })
  }

  #prepareBatch(steps: readonly BatchStep[], version: 2 | 3, rights: Rights): Step[] {
    for (const [index, { condition }] of steps.entries()) {
      if (condition !== null) checkCondition(condition, index, version)
    }
    const texts = steps.map(({ statement }) => this.texts.textOf(statement))
    const prepared = steps.map(({ statement }, index) => this.#toStep(texts[index] as string, statement))
    for (const { statement } of prepared) this.#checkRights(statement, rights)
    return prepared
  }

  #prepareStep(request: StatementRequest): Step {
    return this.#toStep(this.texts.textOf(request), request)
  }

  #toStep(text: string, request: StatementRequest): Step {
    if (request.args.length > 0 && request.namedArgs.length > 0) {
      const message = 'Specifying both positional and named arguments is not supported'
      throw new ResultError('ARGS_BOTH_POSITIONAL_AND_NAMED', message)
    }
    const [statement, ...more] = this.#parse(text)
    if (statement === undefined) {
      throw new ResultError('SQL_NO_STATEMENT', 'SQL string does not contain any statement')
    }
    if (more.length > 0) {
      throw new ResultError('SQL_MANY_STATEMENTS', 'SQL string contains more than one statement')
    }
    return { statement, request }
  }

  #parse(text: string): readonly Statement[] {
    return this.#database.texts.parse(text, (sql) => this.#connection.check(sql))
  }

  async #runStep(step: Step, maxCharacters: number): Promise<StatementResult> {
    const run = await this.#start(step)
    const rows: string[] = []
    let left = maxCharacters
    this.#engineCall(step.statement.sql, () => {
      for (const row of run.rows) {
        left -= row.length
        if (left < 0) {
          run.stop()
          throw new ResultError('RESPONSE_TOO_LARGE', 'Response is too large')
        }
        rows.push(row)
      }
    })
    return { ...run.finish(), rows: rows.join() }
  }

  async #streamStep(step: Step, index: number, sink: CursorSink): Promise<void> {
    const run = await this.#start(step)
    const { sql } = step.statement
    try {
      await sink.stepBegin(index, run.columns)
      for (;;) {
        const next = this.#engineCall(sql, () => run.rows.next())
        if (next.done === true) break
        await sink.row(next.value)
      }
    } catch (error) {
      // a statement that is left half-run would keep the transaction from ending
      if (!(error instanceof ResultError)) this.#engineCall(sql, () => run.stop())
      throw error
    }
    await sink.stepEnd(run.finish())
  }

  async #start(step: Step): Promise<RunningStatement> {
    this.#checkBlocked(step.statement)
    try {
      return await this.#connection.start(step.statement, step.request)
    } catch (error) {
      throw toResultError(error, step.statement.sql)
    }
  }

  #engineCall<T>(sql: string, run: () => T): T {
    Atomics.store(this.#busyWith, 0, this.call)
    try {
      return run()
    } catch (error) {
      throw toResultError(error, sql)
    } finally {
      Atomics.store(this.#busyWith, 0, 0)
    }
  }

  #isMet(condition: BatchStep['condition'], results: readonly (string | null)[]): boolean {
    return (
      condition === null ||
      evaluateCondition(condition, {
        isOk: (step) => results[step] !== null,
        isAutocommit: () => this.#connection.isAutocommit,
      })
    )
  }

  #checkRights(statement: Statement, rights: Rights): void {
    if (statement.access === 'read' && !rights.read) throw this.#forbidden('Read')
    if (statement.access === 'write' && !rights.write) throw this.#forbidden('Write')
    if (statement.access === 'attach') {
      const name = attachTarget(statement)
      throw PipelineFailure.service(
        403,
        `Authorization forbidden: Namespace \`${name}\` doesn't allow attach`,
      )
    }
  }

  #forbidden(right: string): PipelineFailure {
    const text = `Current session doesn't not have ${right} permission to namespace ${this.#database.id}`
    return PipelineFailure.service(403, `Authorization forbidden: ${text}`)
  }

  #checkBlocked(statement: Statement): void {
    const { blockReads, blockWrites, blockReason } = this.#database.settings
    if (statement.kind === 'end' || statement.kind === 'detach') return
    const isBlocked = statement.access === 'write' ? blockReads || blockWrites : blockReads
    if (!isBlocked) return
    throw new ResultError('BLOCKED', `Operation was blocked${blockReason === null ? '' : `: ${blockReason}`}`)
  }
}

const NO_ARGUMENTS: StatementRequest = { sql: null, sqlId: null, args: [], namedArgs: [] }

function transactionTimeout(): ResultError {
  return new ResultError('TRANSACTION_TIMEOUT', 'Transaction timed out')
}

/** Turns whatever a statement can throw into what the client is told; failures of the pipeline pass through. */
function toResultError(error: unknown, sql: string): unknown {
  if (error instanceof ArgumentsError) {
    return new ResultError('ARGS_INVALID', `Arguments do not match SQL parameters: ${error.message}`)
  }
  if (error instanceof ValueTooBigError)
    return new ResultError('SQLITE_TOOBIG', `SQLite error: ${error.message}`)
  if (error instanceof TextEncodingError) return PipelineFailure.service(500, error.message)
  const engineError = asEngineError(error)
  return engineError === null ? error : resultErrorOf(engineError, sql)
}

function attachTarget({ sql, tokens }: Statement): string {
  return identifier(sql, tokens[upper(sql, tokens[1]) === 'DATABASE' ? 2 : 1]) ?? ''
}
