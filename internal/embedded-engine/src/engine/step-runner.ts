import { type Permissions, ResultError, type StatementRequest } from '@batonsql/server-common/hrana'
import {
  deferTransactions,
  getKeyword,
  parseFirstStatement,
  type Statement,
} from '@batonsql/server-common/sql'
import { removePrefix } from './arguments.ts'
import type { ClientConnection, StatementPermissions } from './client-connection.ts'
import type { CursorLines } from './cursor.ts'
import type { Database } from './database.ts'
import type { StatementResult } from './result-encoder.ts'
import type { RunningStatement } from './running-statement.ts'
import type { SqliteColumn, SqliteStatement } from './sqlite-connection.ts'
import { checkBlocked, toClientError } from './statement-checks.ts'
import { TableAuthorizer } from './table-authorizer.ts'

const CURSOR_CHUNK_BYTES = 64 * 1_024

/** A statement of a program with its arguments. */
export interface Step {
  readonly statement: Statement
  readonly request: StatementRequest
}

/** What a program runs on. */
export interface RunnerContext {
  readonly database: Database
  readonly connection: ClientConnection
  readonly permissions: Permissions
  /** @throws ClientDisconnectedError if the client has disconnected */
  checkNotAbandoned(): void
}

/** Executes the steps of one program of a client, with the client's permissions. Throws errors as the client receives them. */
export class StepRunner {
  readonly #context: RunnerContext

  constructor(context: RunnerContext) {
    this.#context = context
  }

  /** Executes a statement. @throws ResultError; its code is `RESPONSE_TOO_LARGE` if the rows exceed `maxBytes` */
  async run(step: Step, maxBytes: number): Promise<StatementResult> {
    const run = await this.#prepare(step)
    await this.#begin(run, step.request)
    if (this.#isCloud && step.request.wantRows === false) {
      this.#guard(() => run.discardRows())
      return this.#finish(step, run)
    }
    const { text, sizeBytes, isDone } = this.#guard(() => run.readRows(maxBytes, false))
    if (isDone) return { ...this.#finish(step, run), rows: text, sizeBytes }
    // its changes are kept: for clients, the outcome of this error is unknown
    run.stop()
    throw responseTooLarge()
  }

  /** Executes a statement, and discards its rows. */
  async runWithoutRows(step: Step): Promise<void> {
    const run = await this.#prepare(step)
    await this.#begin(run, step.request)
    this.#guard(() => run.discardRows())
    this.#finish(step, run)
  }

  /** Executes a statement of a cursor, sending its rows as they are read. @param index of the step in the cursor's batch */
  async stream(step: Step, index: number, sink: CursorLines): Promise<void> {
    const run = await this.#prepare(step)
    let columns: readonly SqliteColumn[] | null = run.columns
    try {
      await this.#begin(run, step.request)
      for (;;) {
        const next = this.#guard(() => run.readRows(CURSOR_CHUNK_BYTES, true))
        // it was compiled again if another connection has changed the schema
        if (columns !== null) columns = run.columns
        // a finished statement ends before the wait for the reader, so that it does not hold the write lock meanwhile
        const result = next.isDone ? this.#finish(step, run) : null
        const firstColumns = columns
        columns = null
        if (firstColumns !== null) await sink.beginStep(index, firstColumns)
        await sink.writeRows(next.text)
        if (result !== null) return await sink.endStep(result)
      }
    } catch (error) {
      // a statement that is still running would keep the transaction from ending
      run.stop()
      // libsql-server also sends the columns of a statement that fails at once
      if (columns !== null) await sink.beginStep(index, columns)
      throw error
    }
  }

  /** Compiles a statement without executing it, and passes it to `inspect`. */
  async examine<T>(statement: Statement, inspect: (prepared: SqliteStatement) => T): Promise<T> {
    const { connection, permissions } = this.#context
    try {
      return await connection.examine(statement, toStatementPermissions(statement, permissions), inspect)
    } catch (error) {
      throw this.#toClientError(error)
    }
  }

  get #isCloud(): boolean {
    return this.#context.database.dialect === 'cloud'
  }

  async #prepare({ statement }: Step): Promise<RunningStatement> {
    const { connection, database, permissions } = this.#context
    this.#context.checkNotAbandoned()
    const { settings } = database
    const hasBlocks = !permissions.ignoresBlocks && (settings.blockWrites || settings.blockReads)
    if (hasBlocks) checkBlocked(statement, settings)
    const { write, tables } = toStatementPermissions(statement, permissions)
    const mayWrite = write && !hasBlocks
    try {
      return await connection.prepare(mayWrite ? statement : withoutLock(statement), {
        write: mayWrite,
        tables,
      })
    } catch (error) {
      throw this.#toClientError(error)
    }
  }

  async #begin(run: RunningStatement, request: StatementRequest): Promise<void> {
    try {
      await run.begin(this.#isCloud ? withBareNames(request) : request)
      // the client may have disconnected during the wait for the write lock
      this.#context.checkNotAbandoned()
    } catch (error) {
      run.stop()
      throw this.#toClientError(error)
    }
  }

  #finish({ statement }: Step, run: RunningStatement): StatementResult {
    const result = run.finish()
    this.#context.database.meter.add(statement.sql, result.rowsRead, result.rowsWritten)
    return result
  }

  #guard<T>(run: () => T): T {
    try {
      return run()
    } catch (error) {
      throw this.#toClientError(error)
    }
  }

  #toClientError(error: unknown): unknown {
    return toClientError(error, this.#context.permissions, this.#context.database.id)
  }
}

export function responseTooLarge(): ResultError {
  return new ResultError('RESPONSE_TOO_LARGE', 'Response is too large')
}

/** In the cloud, the prefix is not part of a parameter's name. */
function withBareNames(request: StatementRequest): StatementRequest {
  const namedArgs = request.namedArgs.map(([name, value]) => [removePrefix(name), value] as const)
  return { ...request, namedArgs }
}

function toStatementPermissions(
  { sql, tokens }: Statement,
  { write, tables }: Permissions,
): StatementPermissions {
  const replaces = tables !== null && tokens.some((token) => getKeyword(sql, token) === 'REPLACE')
  const isReader = tables?.every(({ actions }) => actions.every((action) => action === 'data_read'))
  return { write: write && isReader !== true, tables: tables && new TableAuthorizer(tables, replaces) }
}

/** Returns the statement; a BEGIN IMMEDIATE as a plain BEGIN, because a client that may not write must not hold the write lock. */
function withoutLock(statement: Statement): Statement {
  if (statement.kind !== 'begin' || !statement.needsWriteLock) return statement
  return parseFirstStatement(deferTransactions(statement.sql)) ?? statement
}
