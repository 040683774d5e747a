import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import { copyError, DatabaseError, RestoreError, SqlError } from '../base/errors.ts'
import { MAX_RETRIES } from '../base/limits.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { type Client, getHttp } from '../client/client.ts'
import { failWhen, isFailedAssertion } from '../client/failed-assertion.ts'
import { findFailingStatement } from '../client/find-failing-statement.ts'
import { run } from '../client/run.ts'
import type { ObjectRow } from '../codec/result.ts'
import { type EncodedStatement, encodeBatch, encodeStatement } from '../codec/statement.ts'
import type { Http } from '../http/http.ts'
import { backoffMs } from '../http/retry.ts'
import type { AtomicBatchOptions, BatchOptions, CallOptions } from '../options.ts'
import type { Results } from '../request/queued-call.ts'
import { type RestoreBatch, splitIntoBatches } from './restore-batches.ts'
import type { ScriptSource } from './statement-reader.ts'

/** Progress of a restore. */
export interface RestoreProgress {
  /** Number of applied statements of the source. */
  readonly statements: number
  /** Total length of their text, in characters. */
  readonly characters: number
}

/** Settings of a restore. */
export interface RestoreOptions extends CallOptions {
  /** Called after each applied batch. */
  readonly onProgress?: ((progress: RestoreProgress) => void) | undefined
  /** Resumes an interrupted restore from the same source, or begins one if none was interrupted. @default false */
  readonly resume?: boolean | undefined
}

/**
 * Table that records the progress of a restore, in the database itself, so that a batch and its count are committed together.
 * Dropped at the end. A single transaction for a large dump would exceed the limit of 5 s, and its stream would expire.
 */
const PROGRESS_TABLE = 'baton_restore_progress'
const HAS_TABLES = `exists (select 1 from sqlite_schema
  where name not like 'sqlite\\_%' escape '\\' and name not in ('libsql_vector_meta_shadow', 'libsql_wasm_func_table')
  and name not like '\\_\\_turso\\_internal\\_%' escape '\\')`

/**
 * Applies a dump to an empty database: chunks of text or bytes, such as `dump(other)`, a file or the body of a response. A dump
 * of up to a million characters is applied as a whole or not at all. A longer one is applied in batches, each exactly once, even
 * if a response is lost; a table `baton_restore_progress` records the progress until the end. Foreign keys are not checked during
 * the restore. `timeoutMs` applies to each request.
 * @throws RestoreError with `applied` and the SqlError, TransportError or ProtocolError as its `cause`; TypeError for a database
 * that already has tables, or has an interrupted restore if `resume` is not set; the signal's reason
 */
export async function restore(
  db: Client,
  source: ScriptSource,
  options: RestoreOptions = {},
): Promise<RestoreProgress> {
  checkOptions(options, { ...CALL_OPTIONS, onProgress: 'function', resume: 'boolean' })
  const { onProgress, resume = false, signal, timeoutMs } = options
  signal?.throwIfAborted()
  const http = getHttp(db)
  const { lifetime } = http
  lifetime.begin()
  const state = new Restore(http, { signal, timeoutMs })
  try {
    if (resume) await state.resumeFromCheckpoint()
    const read = <T>(part: Promise<T>): Promise<T> => lifetime.until(() => part, { signal })
    for await (const batch of readAhead(splitIntoBatches(source), read)) {
      if (await state.apply(batch)) onProgress?.(state.progress)
    }
    await state.finish()
  } catch (error) {
    const isOurs = error instanceof DatabaseError && !(error instanceof RestoreError)
    throw withCallerStack(isOurs ? new RestoreError(state.progress.statements, error) : error)
  } finally {
    lifetime.end()
  }
  return state.progress
}

/**
 * Prepares the next item while the current one is used.
 * @param read waits for an item, until the restore is aborted
 */
async function* readAhead<T>(
  items: AsyncGenerator<T, void, undefined>,
  read: <P>(part: Promise<P>) => Promise<P>,
): AsyncGenerator<T, void, undefined> {
  const prepare = (): Promise<IteratorResult<T, void>> => {
    const next = items.next()
    // reported when it is awaited, unless the restore fails first
    next.catch(() => {})
    return next
  }
  let next = prepare()
  try {
    for (let item = await read(next); !item.done; item = await read(next)) {
      next = prepare()
      yield item.value
    }
  } finally {
    // a source that yields nothing cannot be closed, so this is not awaited
    items.return().catch(() => {})
  }
}

class Restore {
  readonly #http: Http
  readonly #options: CallOptions
  #statements = 0
  #characters = 0
  /** Number of statements of the source that have been read. */
  #end = 0
  /** Whether the database has the progress table. */
  #hasCheckpoint = false

  constructor(http: Http, options: CallOptions) {
    this.#http = http
    this.#options = options
  }

  get progress(): RestoreProgress {
    return { statements: this.#statements, characters: this.#characters }
  }

  /** Continues after the statements that an earlier restore applied. */
  async resumeFromCheckpoint(): Promise<void> {
    const checkpoint = await this.#readCheckpoint()
    this.#hasCheckpoint = checkpoint !== null
    this.#statements = checkpoint ?? 0
  }

  /** Applies the statements of a batch that have not been applied yet. @returns whether there were any */
  async apply(batch: RestoreBatch): Promise<boolean> {
    this.#end = batch.end
    const isAlreadyApplied = batch.end <= this.#statements
    if (!isAlreadyApplied) await this.#applyOnce(batch)
    this.#statements = Math.max(batch.end, this.#statements)
    this.#characters += batch.length
    return !isAlreadyApplied
  }

  /**
   * Drops the progress table, in a separate request, so that a restore whose last response was lost can be recognized.
   * @throws TypeError for another source than the one of the interrupted restore
   */
  async finish(): Promise<void> {
    if (this.#end < this.#statements)
      throw new TypeError(
        `this is not the source of the interrupted restore: it has ${this.#end} statements, of which ${this.#statements} were applied`,
      )
    for (let attempt = 0; this.#hasCheckpoint; attempt++) {
      try {
        await this.#execute(`drop table if exists ${PROGRESS_TABLE}`)
        this.#hasCheckpoint = false
      } catch (error) {
        const isUnknown = error instanceof DatabaseError && error.outcome === 'unknown'
        if (!isUnknown || attempt >= MAX_RETRIES) throw error
        await this.#pause(attempt)
      }
    }
  }

  async #applyOnce(batch: RestoreBatch): Promise<void> {
    const { end, isLast } = batch
    const remaining = batch.statements.filter(({ sourceIndex }) => sourceIndex >= this.#statements)
    const { before, after } = this.#encodeProgress(batch)
    const statements = [...before, ...remaining.map(({ sql }) => sql), ...after]
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#run(encodeBatch(statements), 'atomic', { foreignKeys: 'off' })
        break
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error
        const isRejected = isFailedAssertion(error, 0)
        if (!isRejected && error.outcome !== 'unknown') {
          const failure = withPosition(await this.#findFailing(error, statements), remaining, before.length)
          // an earlier attempt may still be applied
          throw attempt > 0 ? new RestoreError(this.#statements, failure, 'unknown') : failure
        }
        const checkpoint = await this.#readCheckpoint().catch((failure: unknown) => {
          if (failure instanceof DatabaseError) return undefined
          throw failure
        })
        // no response has been lost, so the existing tables are not from this restore
        if (isRejected && attempt === 0 && !this.#hasCheckpoint) throw notEmptyError(checkpoint)
        // the response to this or an earlier attempt was lost: the database shows whether the batch was applied
        if (checkpoint === end) break
        if (isRejected && checkpoint !== undefined) throw notEmptyError(checkpoint)
        if (attempt >= MAX_RETRIES || (isLast && !this.#hasCheckpoint))
          throw new RestoreError(this.#statements, error, 'unknown')
        await this.#pause(attempt)
      }
    }
    this.#hasCheckpoint ||= !isLast
  }

  /** Returns an error with the statement that the server could not parse. The server rejects the whole batch without naming it. */
  async #findFailing(error: DatabaseError, statements: readonly string[]): Promise<DatabaseError> {
    const batch = (texts: string[], { mode }: BatchOptions): Promise<Results> =>
      this.#run(encodeBatch(texts), 'atomic', { mode })
    const queries = statements.map((sql) => ({ sql }))
    return (await findFailingStatement(error, queries, { batch })) as DatabaseError
  }

  async #execute(sql: string): Promise<Results[number]> {
    return (await this.#run([encodeStatement(sql)], 'autocommit'))[0] as Results[number]
  }

  #run(
    statements: EncodedStatement[],
    scope: 'autocommit' | 'atomic',
    options: AtomicBatchOptions = {},
  ): Promise<Results> {
    return run(this.#http, statements, scope, { ...this.#options, ...options }, { isContinuation: true })
  }

  async #pause(attempt: number): Promise<void> {
    await this.#http.lifetime.sleep(backoffMs(attempt), this.#options.signal)
  }

  /** Returns the statements before and after a batch, which ensure that it is applied exactly once. */
  #encodeProgress({ end, isLast }: RestoreBatch): { before: string[]; after: string[] } {
    const hasUnexpectedState = this.#hasCheckpoint
      ? `(select statements from ${PROGRESS_TABLE}) <> ${this.#statements}`
      : HAS_TABLES
    const before = [`select ${failWhen(hasUnexpectedState, 'as expected')}`]
    if (this.#hasCheckpoint) return { before, after: [`update ${PROGRESS_TABLE} set statements = ${end}`] }
    const createCheckpoint = isLast
      ? []
      : [
          `create table ${PROGRESS_TABLE} (statements integer not null)`,
          `insert into ${PROGRESS_TABLE} values (${end})`,
        ]
    return { before, after: createCheckpoint }
  }

  /** Reads the number of applied statements from the database; null without a progress table. */
  async #readCheckpoint(): Promise<number | null> {
    try {
      const [row] = (await this.#execute(`select statements from ${PROGRESS_TABLE}`)).rows
      // regardless of the client's `intMode`
      return row ? Number((row as ObjectRow)['statements']) : null
    } catch (error) {
      if (error instanceof SqlError && /no such table/i.test(error.message)) return null
      throw error
    }
  }
}

function notEmptyError(checkpoint: number | null | undefined): TypeError {
  if (checkpoint == null)
    return new TypeError('the database already has tables: restore() needs an empty one')
  return new TypeError(
    `another restore has applied ${checkpoint} statements: wait for it if it is running; if it stopped, continue with { resume: true }, or begin with an empty database`,
  )
}

/** Adds the position in the source to the error of a statement. @param before number of statements in the batch before these */
function withPosition(
  error: DatabaseError,
  statements: RestoreBatch['statements'],
  before: number,
): DatabaseError {
  if (!(error instanceof SqlError) || error.statementIndex === null) return error
  const statement = statements[error.statementIndex - before]
  if (!statement) return error
  const message = `statement ${statement.sourceIndex + 1}: ${error.message}`
  return copyError(error, { message, statementIndex: statement.sourceIndex })
}
