import {
  type BatchStep,
  formatInternalMessage,
  INTERNAL_PERMISSIONS,
  type Permissions,
  PipelineFailure,
  ResultError,
  type StatementRequest,
} from '@batonsql/server-common/hrana'
import { parseFirstStatement } from '@batonsql/server-common/sql'
import type { JsonText } from '../protocol/json-text.ts'
import { removePrefix } from './arguments.ts'
import { type ClientConnection, ClientDisconnectedError } from './client-connection.ts'
import { checkCondition, evaluateCondition } from './condition.ts'
import type { CursorLines } from './cursor.ts'
import type { Database } from './database.ts'
import type { Attachment } from './database-files.ts'
import {
  type ClientMigration,
  encodeMigration,
  MigrationError,
  type MigrationProgram,
} from './migration-program.ts'
import { encodeResult } from './result-encoder.ts'
import { changesSchema } from './schema-change.ts'
import type { SqliteConnection } from './sqlite-connection.ts'
import {
  attachTarget,
  checkBlocked,
  checkPermissions,
  checkSharedSchema,
  transactionTimeout,
  withAttachTarget,
} from './statement-checks.ts'
import { responseTooLarge, type Step, StepRunner } from './step-runner.ts'
import type { StoredTexts } from './stored-texts.ts'

/**
 * Maximum size of the rows and errors of one operation of a request, in bytes, as in the service; in a migration, of the rows of one
 * statement.
 */
const MAX_RESPONSE_BYTES = 10_000_000
/** How long a session may run statements before the worker receives messages. */
const PAUSE_AFTER_MS = 20
/** Maximum number of databases that a session can attach, including those it has detached since. */
const MAX_ATTACHED = 10

/** Services that the worker provides to a session. */
export interface SessionHost {
  /** Whether the client of a call has disconnected. */
  isAbandoned(call: number): boolean
  /** Creates a copy of a database to attach. @throws PipelineFailure if it does not exist, or may not be attached */
  attach(database: string, allowed: Permissions['attach']): Promise<Attachment>
  /** Runs a migration. @returns its error; null on success */
  migrate(program: string): Promise<string | null>
}

/** The outcome of a batch: for each step a result, an error, or neither if it was skipped. */
export interface BatchOutcome {
  readonly results: readonly (JsonText | null)[]
  readonly errors: readonly (ResultError | null)[]
}

/** A client's session: its connection and the programs that run on it. */
export class Session {
  readonly #database: Database
  readonly #connection: ClientConnection
  readonly texts: StoredTexts
  /** A separate session that runs a dry run for the current call. */
  #inner: Session | null = null
  #lastPause = 0
  #lastCall: Promise<unknown> = Promise.resolve()
  readonly #host: SessionHost
  /** Copies of databases that were attached. */
  readonly #attached: Attachment[] = []
  #isClosed = false
  #call = 0

  /** @param texts SQL text that the client has stored */
  constructor(database: Database, texts: StoredTexts, host: SessionHost) {
    this.texts = texts
    this.#database = database
    this.#host = host
    this.#connection = database.connect()
  }

  /**
   * Runs one call at a time, because a cursor may still be running when the next request arrives. The write lock cannot be preempted
   * during a call.
   */
  runExclusively<T>(call: number, run: () => Promise<T>): Promise<T> {
    const outcome = this.#lastCall.then(() => {
      this.#lastPause = performance.now()
      this.#call = call
      this.#connection.call = call
      return this.#connection.withoutPreemption(run)
    })
    this.#lastCall = outcome.catch(() => {})
    return outcome
  }

  /** Waits for the client; the write lock can be preempted meanwhile. */
  withPreemption<T>(wait: () => Promise<T>): Promise<T> {
    return this.#connection.withPreemption(wait)
  }

  /**
   * Called between two statements. Lets the worker receive messages from time to time, so that other sessions can proceed.
   * @throws ClientDisconnectedError if the client has disconnected: later statements are skipped
   */
  async pause(): Promise<void> {
    if (performance.now() - this.#lastPause >= PAUSE_AFTER_MS) {
      // messages are received between two rounds of immediates, not before the first
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
      this.#lastPause = performance.now()
    }
    this.#checkNotAbandoned()
  }

  #checkNotAbandoned(): void {
    if (this.#host.isAbandoned(this.#call)) throw new ClientDisconnectedError()
  }

  /** Cancels the wait of a call for the write lock, because its client has disconnected. */
  stopWaiting(call: number): void {
    if (this.#call === call) this.#connection.stopWaiting()
    this.#inner?.stopWaiting(call)
  }

  get isAutocommit(): boolean {
    return this.#connection.isAutocommit
  }

  /** Whether the session is indistinguishable from a new one. */
  get isPristine(): boolean {
    const { isReusable, hasInitialCounts } = this.#connection
    const hasNoState = this.texts.isEmpty && this.#attached.length === 0
    return this.isAutocommit && hasNoState && isReusable && hasInitialCounts
  }

  get #isCloud(): boolean {
    return this.#database.dialect === 'cloud'
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#inner?.close()
    this.#connection.close()
    for (const attachment of this.#attached.splice(0)) attachment.remove()
  }

  /** Executes one statement and returns its result as JSON. */
  async execute(request: StatementRequest, permissions: Permissions): Promise<JsonText> {
    const [step] = await this.#admit([this.#toStep(request)], permissions)
    if (this.#connection.takeTimeout()) throw transactionTimeout()
    const result = await this.#createRunner(permissions).run(step as Step, MAX_RESPONSE_BYTES)
    return encodeResult(result, this.#isCloud ? undefined : this.#database.replicationIndex)
  }

  /** Runs a batch; errors of its statements are part of the outcome. */
  async batch(steps: readonly BatchStep[], version: 2 | 3, permissions: Permissions): Promise<BatchOutcome> {
    const prepared = await this.prepareBatch(steps, version, permissions)
    const runner = this.#createRunner(permissions)
    const results: (JsonText | null)[] = []
    const errors: (ResultError | null)[] = []
    const isTimedOut = this.#connection.takeTimeout()
    let remaining = MAX_RESPONSE_BYTES
    for (const [index, { condition }] of steps.entries()) {
      results.push(null)
      errors.push(isTimedOut ? transactionTimeout() : null)
      if (isTimedOut || !this.#isConditionTrue(condition, results)) continue
      try {
        const result = await runner.run(prepared[index] as Step, remaining)
        results[index] = encodeResult(result, this.#isCloud ? undefined : null)
        remaining -= result.sizeBytes
      } catch (error) {
        if (!(error instanceof ResultError)) throw error
        if (error.code === 'RESPONSE_TOO_LARGE') throw error
        errors[index] = error
        remaining -= Buffer.byteLength(formatInternalMessage(error, prepared[index]?.statement.sql ?? ''))
        if (remaining < 0) throw responseTooLarge()
      }
      await this.pause()
    }
    return { results, errors }
  }

  /**
   * Runs a batch, sending rows as they are read.
   * @param onReady called when the batch has been accepted, before its first statement
   */
  async cursor(
    steps: readonly BatchStep[],
    permissions: Permissions,
    sink: CursorLines,
    onReady: () => void,
  ): Promise<void> {
    const prepared = await this.prepareBatch(steps, 3, permissions)
    // rows that are sent immediately cannot come from a dry run
    const isChange = prepared.some(
      ({ statement: { access, kind } }) => access === 'write' || kind === 'begin',
    )
    if (this.#database.role === 'schema' && isChange)
      throw PipelineFailure.service(400, 'a cursor cannot change a schema database')
    onReady()
    const runner = this.#createRunner(permissions)
    let isTimedOut = false
    const results: ('done' | null)[] = []
    for (const [index, { condition }] of steps.entries()) {
      results.push(null)
      // the transaction may have been preempted while the cursor waited for its reader; later steps must not run without it
      isTimedOut = this.#connection.takeTimeout() || isTimedOut
      if (isTimedOut) await sink.failStep(index, transactionTimeout())
      if (isTimedOut || !this.#isConditionTrue(condition, results)) continue
      try {
        await runner.stream(prepared[index] as Step, index, sink)
        results[index] = 'done'
      } catch (error) {
        if (!(error instanceof ResultError)) throw error
        isTimedOut = this.#connection.takeTimeout() || isTimedOut
        await sink.failStep(index, error)
      }
      await this.pause()
    }
  }

  /** Executes all statements of the SQL text, until one fails. */
  async sequence(text: string, permissions: Permissions): Promise<void> {
    const steps = await this.prepareSequence(text, permissions)
    if (this.#connection.takeTimeout()) throw transactionTimeout()
    const runner = this.#createRunner(permissions)
    for (const step of steps) {
      await runner.runWithoutRows(step)
      await this.pause()
    }
  }

  /** Describes the first statement of the SQL text as JSON. */
  async describe(text: string, permissions: Permissions): Promise<string> {
    const statement = parseFirstStatement(text)
    if (statement === null) return '{"params":[],"cols":[],"is_explain":false,"is_readonly":true}'
    const { settings } = this.#database
    // while only writes are blocked, statements are described unless compiling them may already change the schema
    const isChecked = settings.blockReads || changesSchema(statement)
    if (isChecked && !permissions.ignoresBlocks) checkBlocked(statement, settings)
    return await this.#createRunner(permissions).examine(statement, (prepared) =>
      JSON.stringify({
        params: prepared.parameters.map((name) => ({
          name: this.#isCloud && name !== null ? removePrefix(name) : name,
        })),
        cols: prepared.columns,
        is_explain: prepared.isExplain,
        is_readonly: prepared.isReadonly,
      }),
    )
  }

  /** Prepares the steps of a batch. @throws PipelineFailure if the client may not run all of them; ResultError */
  async prepareBatch(
    steps: readonly BatchStep[],
    version: 2 | 3,
    permissions: Permissions,
  ): Promise<readonly Step[]> {
    const prepared = steps.map(({ statement, condition }, index) => {
      const step = this.#toStep(statement)
      if (condition !== null) checkCondition(condition, index, version)
      return step
    })
    return await this.#admit(prepared, permissions)
  }

  /** Prepares the statements of the SQL text. @throws PipelineFailure if the client may not run all of them; ResultError */
  async prepareSequence(text: string, permissions: Permissions): Promise<readonly Step[]> {
    const steps = this.#database.parse(text).map((statement) => ({ statement, request: NO_ARGUMENTS }))
    return await this.#admit(steps, permissions)
  }

  /** Checks that no statement is blocked. @throws ResultError with code `BLOCKED` */
  checkBlocked(steps: readonly Step[]): void {
    for (const { statement } of steps) checkBlocked(statement, this.#database.settings)
  }

  /** Checks a program before any of it runs, and copies the databases that it attaches. @throws PipelineFailure, ResultError */
  async #admit(steps: readonly Step[], permissions: Permissions): Promise<readonly Step[]> {
    for (const { statement } of steps) {
      checkPermissions(statement, permissions, this.#database.id)
      checkSharedSchema(statement, permissions, this.#database)
    }
    const attaching = steps.filter(({ statement }) => statement.kind === 'attach')
    if (attaching.length === 0) return steps
    // the message is that of libsql-server
    if (this.#database.role === 'schema')
      throw new ResultError('SQLITE_UNKNOWN', 'SQLite error: ATTACH is not permitted in migration scripts')
    if (this.#attached.length + attaching.length > MAX_ATTACHED)
      throw new ResultError(
        'SQLITE_UNKNOWN',
        `SQLite error: too many attached databases - max ${MAX_ATTACHED}`,
      )
    const admitted: Step[] = []
    for (const step of steps) admitted.push(await this.#withAttachment(step, permissions))
    return admitted
  }

  async #withAttachment({ statement, request }: Step, { attach }: Permissions): Promise<Step> {
    if (statement.kind !== 'attach') return { statement, request }
    const attachment = await this.withPreemption(() => this.#host.attach(attachTarget(statement), attach))
    if (this.#isClosed) {
      attachment.remove()
      throw new ClientDisconnectedError()
    }
    this.#attached.push(attachment)
    return { statement: withAttachTarget(statement, attachment.name), request }
  }

  /**
   * Executes the statements of a migration in the open transaction. @returns their results as JSON; null for those whose condition is
   * not met @throws MigrationError for the first that fails
   */
  async runMigration(
    { steps }: MigrationProgram,
    permissions: Permissions,
  ): Promise<readonly (JsonText | null)[]> {
    const runner = this.#createRunner(permissions)
    const results: (JsonText | null)[] = []
    for (const [index, { sql, args, namedArgs, condition }] of steps.entries()) {
      results.push(null)
      // without the transaction, later statements would be committed individually
      if (this.#connection.takeTimeout() || this.isAutocommit)
        throw MigrationError.fromStep(index, transactionTimeout(), sql)
      if (!this.#isConditionTrue(condition, results)) continue
      try {
        const step = this.#toStep({ sql, sqlId: null, args, namedArgs })
        results[index] = encodeResult(await runner.run(step, MAX_RESPONSE_BYTES), null)
      } catch (error) {
        throw error instanceof ResultError ? MigrationError.fromStep(index, error, sql) : error
      }
      await this.pause()
    }
    return results
  }

  /** Executes an internal statement that begins or ends a transaction. */
  async control(sql: string): Promise<void> {
    await this.execute({ ...NO_ARGUMENTS, sql }, INTERNAL_PERMISSIONS)
  }

  /** The engine's connection, for the internal statements of a migration. */
  get internalEngine(): Pick<SqliteConnection, 'run' | 'readInteger'> {
    return this.#connection.internalEngine
  }

  /** Runs a dry run in a separate session, for the same call; that session has the SQL text that the client has stored. */
  async withSession<T>(database: Database, run: (session: Session) => Promise<T>): Promise<T> {
    const session = new Session(database, this.texts, this.#host)
    this.#inner = session
    try {
      return await session.runExclusively(this.#call, () => run(session))
    } finally {
      this.#inner = null
      session.close()
    }
  }

  /** Migrates the children of this schema database, and then the database itself. @returns its error; null on success */
  migrate(program: ClientMigration): Promise<string | null> {
    return this.withPreemption(() => this.#host.migrate(encodeMigration(program)))
  }

  #toStep(request: StatementRequest): Step {
    if (request.args.length > 0 && request.namedArgs.length > 0) {
      const message = 'Specifying both positional and named arguments is not supported'
      throw new ResultError('ARGS_BOTH_POSITIONAL_AND_NAMED', message)
    }
    const [statement, ...otherStatements] = this.#database.parse(this.texts.getText(request))
    if (statement === undefined) {
      throw new ResultError('SQL_NO_STATEMENT', 'SQL string does not contain any statement')
    }
    if (otherStatements.length > 0) {
      throw new ResultError('SQL_MANY_STATEMENTS', 'SQL string contains more than one statement')
    }
    return { statement, request }
  }

  #createRunner(permissions: Permissions): StepRunner {
    return new StepRunner({
      database: this.#database,
      connection: this.#connection,
      permissions,
      checkNotAbandoned: () => this.#checkNotAbandoned(),
    })
  }

  #isConditionTrue(condition: BatchStep['condition'], results: readonly unknown[]): boolean {
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
