import type { BatchStep, Permissions, StatementRequest } from '../protocol/pipeline-types.ts'
import { checkCondition, evaluateCondition } from './condition.ts'
import { ClientLeftError, type Connection } from './connection.ts'
import type { Database } from './database.ts'
import type { EngineColumn } from './engine-connection.ts'
import { checkBlocked, checkPermissions, forbidden, toAnswer, transactionTimeout } from './refusals.ts'
import { encodeResult, type StatementResult } from './result-encoder.ts'
import { ResultError } from './result-error.ts'
import type { RunningStatement } from './running-statement.ts'
import { firstStatement, type Statement } from './sql/statement.ts'
import type { StoredTexts } from './stored-texts.ts'

const MAX_RESPONSE_BYTES = 10_000_000
const PAUSE_AFTER_MS = 20
/** How much of a cursor's rows is produced at a time. */
const CURSOR_BYTES = 64 * 1_024

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

/** Takes what a cursor produces; every call waits until the reader keeps up. */
export interface CursorSink {
  stepBegin(step: number, columns: readonly EngineColumn[]): Promise<void>
  /** Rows, each a line. */
  rows(lines: string): Promise<void>
  stepEnd(result: StatementResult): Promise<void>
  stepError(step: number, error: ResultError): Promise<void>
}

/** One client's session: its connection and the programs it runs there. */
export class Session {
  readonly #database: Database
  readonly #connection: Connection
  readonly texts: StoredTexts
  #lastPause = 0
  #last: Promise<unknown> = Promise.resolve()
  readonly #isAbandoned: (call: number) => boolean
  /** Number of the call that is being answered. */
  #call = 0

  /** `texts` are the client's stored texts, `isAbandoned` says whether the client of a call has left. */
  constructor(database: Database, texts: StoredTexts, isAbandoned: (call: number) => boolean) {
    this.texts = texts
    this.#database = database
    this.#isAbandoned = isAbandoned
    this.#connection = database.connect()
  }

  /**
   * Runs one call at a time: a cursor may still be running when the next request comes. Until it is done the write
   * lock stays where it is.
   */
  exclusive<T>(call: number, run: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(() => {
      this.#lastPause = performance.now()
      this.#call = call
      this.#connection.call = call
      return this.#connection.working(run)
    })
    this.#last = turn.catch(() => {})
    return turn
  }

  /** Waits for the client, who may take its time: the write lock does not wait with it. */
  waiting<T>(wait: () => Promise<T>): Promise<T> {
    return this.#connection.waiting(wait)
  }

  /**
   * To be called between two statements. After a while of work it lets messages in: other sessions have their turn.
   * @throws ClientLeftError when the client has left: what has not begun is not begun
   */
  async pause(): Promise<void> {
    if (performance.now() - this.#lastPause >= PAUSE_AFTER_MS) {
      // messages are read between two rounds of immediates, not before the first
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
      this.#lastPause = performance.now()
    }
    if (this.#isAbandoned(this.#call)) throw new ClientLeftError()
  }

  /** The client of a call has left: it waits for nothing any longer. */
  stopWaiting(call: number): void {
    if (this.#call === call) this.#connection.stopWaiting()
  }

  get isAutocommit(): boolean {
    return this.#connection.isAutocommit
  }

  close(): void {
    this.#connection.close()
  }

  /** Runs one statement and returns its result as JSON. */
  async execute(request: StatementRequest, permissions: Permissions): Promise<string> {
    const step = this.#prepareStep(request)
    checkPermissions(step.statement, permissions, this.#database.id)
    if (this.#connection.takeTimeout()) throw transactionTimeout()
    const result = await this.#runStep(step, MAX_RESPONSE_BYTES, permissions)
    return encodeResult(result, this.#database.replicationIndex)
  }

  /** Runs a batch; errors of its statements are part of the outcome. */
  async batch(steps: readonly BatchStep[], version: 2 | 3, permissions: Permissions): Promise<BatchOutcome> {
    const prepared = this.#prepareBatch(steps, version, permissions)
    const results: (string | null)[] = []
    const errors: (ResultError | null)[] = []
    const isTimedOut = this.#connection.takeTimeout()
    let left = MAX_RESPONSE_BYTES
    for (const [index, { condition }] of steps.entries()) {
      results.push(null)
      errors.push(isTimedOut ? transactionTimeout() : null)
      if (isTimedOut || !this.#isMet(condition, results)) continue
      try {
        const text = encodeResult(await this.#runStep(prepared[index] as Step, left, permissions), null)
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
    permissions: Permissions,
    sink: CursorSink,
    onReady: () => void,
  ): Promise<void> {
    const prepared = this.#prepareBatch(steps, 3, permissions)
    onReady()
    let isTimedOut = false
    const results: (string | null)[] = []
    for (const [index, { condition }] of steps.entries()) {
      results.push(null)
      // every wait for the reader may have cost the transaction: what follows must not run without it
      isTimedOut = this.#connection.takeTimeout() || isTimedOut
      if (isTimedOut) await sink.stepError(index, transactionTimeout())
      if (isTimedOut || !this.#isMet(condition, results)) continue
      try {
        await this.#streamStep(prepared[index] as Step, index, { sink, permissions })
        results[index] = 'done'
      } catch (error) {
        if (!(error instanceof ResultError)) throw error
        isTimedOut = this.#connection.takeTimeout() || isTimedOut
        await sink.stepError(index, error)
      }
      await this.pause()
    }
  }

  /** Runs all statements of a text; the first failing one ends it. */
  async sequence(text: string, permissions: Permissions): Promise<void> {
    const statements = this.#parse(text)
    for (const statement of statements) checkPermissions(statement, permissions, this.#database.id)
    if (this.#connection.takeTimeout()) throw transactionTimeout()
    for (const statement of statements) {
      const run = await this.#prepare({ statement, request: NO_ARGUMENTS }, permissions)
      await this.#begin(run, NO_ARGUMENTS, permissions)
      this.#answered(permissions, () => run.discardRows())
      this.#count(statement, run.finish())
      await this.pause()
    }
  }

  /** Describes the first statement of a text as JSON. */
  async describe(text: string, permissions: Permissions): Promise<string> {
    if (!permissions.read) throw forbidden('Read', this.#database.id)
    const statement = firstStatement(text)
    if (statement === null) return '{"params":[],"cols":[],"is_explain":false,"is_readonly":true}'
    try {
      return await this.#connection.examine(statement, permissions.write, (prepared) =>
        JSON.stringify({
          params: prepared.parameters.map((name) => ({ name })),
          cols: prepared.columns,
          is_explain: prepared.isExplain,
          is_readonly: prepared.isReadonly,
        }),
      )
    } catch (error) {
      throw toAnswer(error, permissions, this.#database.id)
    }
  }

  #prepareBatch(steps: readonly BatchStep[], version: 2 | 3, permissions: Permissions): Step[] {
    const prepared = steps.map(({ statement, condition }, index) => {
      const step = this.#toStep(this.texts.textOf(statement), statement)
      if (condition !== null) checkCondition(condition, index, version)
      return step
    })
    for (const { statement } of prepared) checkPermissions(statement, permissions, this.#database.id)
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
    return this.#database.parse(text)
  }

  /** Runs a statement whose rows may be so many bytes as JSON. */
  async #runStep(step: Step, maxBytes: number, permissions: Permissions): Promise<StatementResult> {
    const run = await this.#prepare(step, permissions)
    await this.#begin(run, step.request, permissions)
    const { text, isDone } = this.#answered(permissions, () => run.rows(maxBytes, false))
    if (isDone) return { ...this.#count(step.statement, run.finish()), rows: text }
    run.stop()
    throw new ResultError('RESPONSE_TOO_LARGE', 'Response is too large')
  }

  async #streamStep(
    step: Step,
    index: number,
    { sink, permissions }: { readonly sink: CursorSink; readonly permissions: Permissions },
  ): Promise<void> {
    const run = await this.#prepare(step, permissions)
    try {
      await sink.stepBegin(index, run.columns)
      await this.#begin(run, step.request, permissions)
      for (;;) {
        const next = this.#answered(permissions, () => run.rows(CURSOR_BYTES, true))
        // before the reader is waited for: what is done holds nobody up
        const result = next.isDone ? this.#count(step.statement, run.finish()) : null
        await sink.rows(next.text)
        if (result !== null) return await sink.stepEnd(result)
      }
    } catch (error) {
      // a statement that is left half-run would keep the transaction from ending
      run.stop()
      throw error
    }
  }

  #count(statement: Statement, result: StatementResult): StatementResult {
    this.#database.meter.add(statement.sql, result.rowsRead, result.rowsWritten)
    return result
  }

  async #prepare(step: Step, permissions: Permissions): Promise<RunningStatement> {
    checkBlocked(step.statement, this.#database.settings)
    const { blockWrites, blockReads } = this.#database.settings
    try {
      const mayWrite = permissions.write && !blockWrites && !blockReads
      return await this.#connection.prepare(step.statement, mayWrite)
    } catch (error) {
      throw toAnswer(error, permissions, this.#database.id)
    }
  }

  async #begin(run: RunningStatement, request: StatementRequest, permissions: Permissions): Promise<void> {
    try {
      await run.begin(request)
    } catch (error) {
      throw toAnswer(error, permissions, this.#database.id)
    }
  }

  /** Turns what the engine throws into what the client is answered. */
  #answered<T>(permissions: Permissions, run: () => T): T {
    try {
      return run()
    } catch (error) {
      throw toAnswer(error, permissions, this.#database.id)
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
}

const NO_ARGUMENTS: StatementRequest = { sql: null, sqlId: null, args: [], namedArgs: [] }
