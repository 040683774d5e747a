import type { CallBoard } from '../protocol/call-board.ts'
import { PipelineFailure } from '../protocol/pipeline-failure.ts'
import type { BatchStep, Permissions, StatementRequest } from '../protocol/pipeline-types.ts'
import { ArgumentsError } from './arguments.ts'
import { checkCondition, evaluateCondition } from './condition.ts'
import { ClientLeftError, type Connection } from './connection.ts'
import type { Database } from './database.ts'
import {
  DeniedError,
  type EngineColumn,
  EngineError,
  type EngineRows,
  TextEncodingError,
  ValueTooBigError,
} from './engine-connection.ts'
import { resultErrorOf } from './error-mapping.ts'
import { encodeResult, type StatementResult } from './result-encoder.ts'
import { ResultError } from './result-error.ts'
import { PreemptedError, type RunningStatement } from './running-statement.ts'
import { identifier, upper } from './sql/sql-scanner.ts'
import { firstStatement, type Statement } from './sql/statement.ts'
import type { StoredTexts } from './stored-texts.ts'

const MAX_RESPONSE_BYTES = 10_000_000
const PAUSE_AFTER_MS = 20
/** How much of a cursor's rows is produced at a time. */
const CURSOR_BYTES = 64 * 1_024
const DISCARDED_BYTES = 1_000_000

/** A statement of a program with what it is to be run with. */
interface Step {
  readonly statement: Statement
  readonly request: StatementRequest
}

/** How many rows are asked for, in bytes, and in which form. */
interface RowsRequest {
  readonly limitBytes: number
  readonly asLines: boolean
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
  readonly #board: CallBoard
  #lastPause = 0
  #last: Promise<unknown> = Promise.resolve()
  /** Number of the call that is being answered. */
  #call = 0
  /** Whether the client of that call has left. */
  #hasLeft = false

  /** `texts` are the client's stored texts; while the engine works, `board` has the number of the call. */
  constructor(database: Database, texts: StoredTexts, board: CallBoard) {
    this.texts = texts
    this.#database = database
    this.#connection = database.connect()
    this.#board = board
  }

  /**
   * Runs one call at a time: a cursor may still be running when the next request comes. Until it is done the write
   * lock stays where it is.
   */
  exclusive<T>(call: number, run: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(() => {
      this.#lastPause = performance.now()
      this.#call = call
      this.#hasLeft = false
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
   * After a while of work, lets messages in: other sessions have their turn, and a client may have left.
   * @throws ClientLeftError when it has: what has not begun is not begun
   */
  async pause(): Promise<void> {
    if (performance.now() - this.#lastPause < PAUSE_AFTER_MS) return
    // messages are read between two rounds of immediates, not before the first
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    this.#lastPause = performance.now()
    if (this.#hasLeft) throw new ClientLeftError()
  }

  /** The client of a call has left: it waits for nothing any longer. */
  stopWaiting(call: number): void {
    if (this.#call !== call) return
    this.#hasLeft = true
    this.#connection.stopWaiting()
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
    this.#checkRights(step.statement, permissions)
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
    for (const statement of statements) this.#checkRights(statement, permissions)
    if (this.#connection.takeTimeout()) throw transactionTimeout()
    for (const statement of statements) {
      await this.#runStep({ statement, request: NO_ARGUMENTS }, null, permissions)
      await this.pause()
    }
  }

  /** Describes the first statement of a text as JSON. */
  async describe(text: string, permissions: Permissions): Promise<string> {
    if (!permissions.read) throw this.#forbidden('Read')
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
      throw this.#toResultError(error, permissions)
    }
  }

  #prepareBatch(steps: readonly BatchStep[], version: 2 | 3, permissions: Permissions): Step[] {
    const prepared = steps.map(({ statement, condition }, index) => {
      const step = this.#toStep(this.texts.textOf(statement), statement)
      if (condition !== null) checkCondition(condition, index, version)
      return step
    })
    for (const { statement } of prepared) this.#checkRights(statement, permissions)
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

  /** Runs a statement; its rows may be so many bytes, or null when nobody wants them. */
  async #runStep(step: Step, maxBytes: number | null, permissions: Permissions): Promise<StatementResult> {
    const run = await this.#prepare(step, permissions)
    await this.#begin(run, step.request, permissions)
    let rows = ''
    for (let isDone = false; !isDone; ) {
      const next = this.#rowsOf(run, { limitBytes: maxBytes ?? DISCARDED_BYTES, asLines: false }, permissions)
      isDone = next.isDone
      if (maxBytes === null) continue
      rows = next.text
      if (isDone) break
      run.stop()
      throw new ResultError('RESPONSE_TOO_LARGE', 'Response is too large')
    }
    return { ...run.finish(), rows }
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
        const next = this.#rowsOf(run, { limitBytes: CURSOR_BYTES, asLines: true }, permissions)
        // before the reader is waited for: what is done holds nobody up
        const result = next.isDone ? run.finish() : null
        await sink.rows(next.text)
        if (result !== null) return await sink.stepEnd(result)
      }
    } catch (error) {
      // a statement that is left half-run would keep the transaction from ending
      run.stop()
      throw error
    }
  }

  async #prepare(step: Step, permissions: Permissions): Promise<RunningStatement> {
    this.#checkBlocked(step.statement)
    const { blockWrites, blockReads } = this.#database.settings
    try {
      const mayWrite = permissions.write && !blockWrites && !blockReads
      return await this.#connection.prepare(step.statement, mayWrite)
    } catch (error) {
      throw this.#toResultError(error, permissions)
    }
  }

  async #begin(run: RunningStatement, request: StatementRequest, permissions: Permissions): Promise<void> {
    try {
      await run.begin(request)
    } catch (error) {
      throw this.#toResultError(error, permissions)
    }
  }

  #rowsOf(run: RunningStatement, how: RowsRequest, permissions: Permissions): EngineRows {
    this.#board.current = this.#call
    try {
      return run.rows(how.limitBytes, how.asLines)
    } catch (error) {
      throw this.#toResultError(error, permissions)
    } finally {
      this.#board.current = 0
    }
  }

  /** What the client is answered for whatever a statement can throw; failures of the pipeline pass through. */
  #toResultError(error: unknown, permissions: Permissions): unknown {
    if (error instanceof ArgumentsError) {
      return new ResultError('ARGS_INVALID', `Arguments do not match SQL parameters: ${error.message}`)
    }
    if (error instanceof PreemptedError) return transactionTimeout()
    if (error instanceof ValueTooBigError)
      return new ResultError('SQLITE_TOOBIG', `SQLite error: ${error.message}`)
    if (error instanceof TextEncodingError) return PipelineFailure.service(500, error.message)
    if (error instanceof DeniedError) {
      return permissions.write
        ? new ResultError('SQLITE_AUTH', 'SQLite error: not authorized')
        : this.#forbidden('Write')
    }
    return error instanceof EngineError ? resultErrorOf(error) : error
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

  #checkRights(statement: Statement, permissions: Permissions): void {
    if (statement.access === 'read' && !permissions.read) throw this.#forbidden('Read')
    if (statement.access === 'write' && !permissions.write) throw this.#forbidden('Write')
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

function attachTarget({ sql, tokens }: Statement): string {
  return identifier(sql, tokens[upper(sql, tokens[1]) === 'DATABASE' ? 2 : 1]) ?? ''
}
