import { CALL_OPTIONS, checkOptions } from '../base/check-options.ts'
import { DatabaseError, RestoreError, SqlError } from '../base/errors.ts'
import { MAX_RETRIES } from '../base/limits.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { type Client, runWithinCall } from '../client/client.ts'
import { failWhen, isFailedAssertion } from '../client/failed-assertion.ts'
import { httpOf } from '../client/http-of.ts'
import type { ObjectRow } from '../codec/result.ts'
import { encodeBatch, encodeStatement } from '../codec/statement.ts'
import type { Lifetime } from '../http/lifetime.ts'
import { backoffMs } from '../http/retry.ts'
import type { CallOptions } from '../options.ts'
import type { Results } from '../request/queued-call.ts'
import { batchesOf, type RestoreBatch } from './restore-batches.ts'
import type { ScriptSource } from './statement-reader.ts'

/** How far a restore is. */
export interface RestoreProgress {
  /** Statements of the source that are applied. */
  readonly statements: number
  /** Their text, in characters. */
  readonly characters: number
}

export interface RestoreOptions extends CallOptions {
  /** Called after each batch that is applied. */
  readonly onProgress?: ((progress: RestoreProgress) => void) | undefined
  /** Goes on with a restore that stopped, from the same source. Without one that stopped it begins. @default false */
  readonly resume?: boolean | undefined
}

/**
 * Table that says how far a restore is, in the database itself, so that a batch and its count are one. Dropped in the end. One
 * transaction over a large dump would outlive the 5 s and its stream.
 */
const PROGRESS = 'baton_restore_progress'
const HAS_TABLES = `exists (select 1 from sqlite_schema
  where name not like 'sqlite\\_%' escape '\\' and name not like 'libsql\\_%' escape '\\')`

/**
 * Applies a dump to an empty database: text or bytes in pieces, such as `dump(other)`, a file or the body of an answer. One of
 * up to a million characters takes effect as a whole or not at all. A longer one is applied in batches, each of them exactly
 * once, also when an answer was lost; a table `baton_restore_progress` counts them until all is there. Foreign keys are not
 * checked meanwhile. `timeoutMs` is for each request.
 * @throws RestoreError with `applied`, and the SqlError, TransportError or ProtocolError as its `cause`; TypeError for a database
 * that has tables already, or in which a restore stopped and `resume` is not set; the signal's reason
 */
export async function restore(
  db: Client,
  source: ScriptSource,
  options: RestoreOptions = {},
): Promise<RestoreProgress> {
  checkOptions(options, { ...CALL_OPTIONS, onProgress: 'function', resume: 'boolean' })
  const { onProgress, resume = false, signal, timeoutMs } = options
  signal?.throwIfAborted()
  const { lifetime } = httpOf(db)
  lifetime.begin()
  const run = new Restore(db, { signal, timeoutMs })
  try {
    if (resume) await run.resumeFromCheckpoint()
    for await (const batch of batchesOf(source)) {
      if (await run.apply(batch)) onProgress?.(run.progress)
    }
    await run.finish()
  } catch (error) {
    const isOurs = error instanceof DatabaseError && !(error instanceof RestoreError)
    throw withCallerStack(isOurs ? new RestoreError(run.progress.statements, error) : error)
  } finally {
    lifetime.end()
  }
  return run.progress
}

/** One restore under way. */
class Restore {
  readonly #db: Client
  readonly #lifetime: Lifetime
  readonly #options: CallOptions
  #statements = 0
  #characters = 0
  /** Whether the database has the table that counts. */
  #hasCheckpoint = false

  constructor(db: Client, options: CallOptions) {
    this.#db = db
    this.#lifetime = httpOf(db).lifetime
    this.#options = options
  }

  get progress(): RestoreProgress {
    return { statements: this.#statements, characters: this.#characters }
  }

  /** Looks how far an earlier restore got. */
  async resumeFromCheckpoint(): Promise<void> {
    const checkpoint = await this.#readCheckpoint()
    this.#hasCheckpoint = checkpoint !== null
    this.#statements = checkpoint ?? 0
  }

  /** Applies a batch, or what is left of it. @returns whether anything was left */
  async apply(batch: RestoreBatch): Promise<boolean> {
    const isEarlier = batch.end <= this.#statements
    if (!isEarlier) await this.#applyOnce(batch)
    this.#statements = Math.max(batch.end, this.#statements)
    this.#characters += batch.length
    return !isEarlier
  }

  /** All is applied: the count goes. By itself, so that a restore whose last answer was lost can still be told from another. */
  async finish(): Promise<void> {
    for (let attempt = 0; this.#hasCheckpoint; attempt++) {
      try {
        await this.#execute(`drop table if exists ${PROGRESS}`)
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
    const own = batch.statements.filter(({ at }) => at >= this.#statements)
    const { before, after } = this.#frame(batch)
    const all = [...before, ...own.map(({ sql }) => sql), ...after]
    for (let attempt = 0; ; attempt++) {
      try {
        const options = { ...this.#options, foreignKeys: 'off' } as const
        await runWithinCall(this.#db, encodeBatch(all), 'atomic', options)
        break
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error
        const isRefused = error instanceof SqlError && isFailedAssertion(error) && error.statementIndex === 0
        if (!isRefused && error.outcome !== 'unknown') throw withPlace(error, own, before.length)
        const checkpoint = await this.#readCheckpoint().catch((failure: unknown) => {
          if (failure instanceof DatabaseError) return undefined
          throw failure
        })
        // no answer was lost before: what is there is not of this restore
        if (isRefused && attempt === 0 && !this.#hasCheckpoint) throw notEmptyError(checkpoint)
        // an answer was lost, now or before the request that was refused: what is there says whether it is done
        if (checkpoint === end) break
        if (isRefused && checkpoint !== undefined) throw notEmptyError(checkpoint)
        if (attempt >= MAX_RETRIES || (isLast && !this.#hasCheckpoint))
          throw new RestoreError(this.#statements, error, 'unknown')
        await this.#pause(attempt)
      }
    }
    this.#hasCheckpoint ||= !isLast
  }

  async #execute(sql: string): Promise<Results[number]> {
    const [result] = await runWithinCall(this.#db, [encodeStatement(sql)], 'autocommit', this.#options)
    return result as Results[number]
  }

  async #pause(attempt: number): Promise<void> {
    await this.#lifetime.sleep(backoffMs(attempt), this.#options.signal)
  }

  /** What stands before and after the statements of a batch, so that it is applied once. */
  #frame({ end, isLast }: RestoreBatch): { before: string[]; after: string[] } {
    const isNotAsAsked = this.#hasCheckpoint
      ? `(select statements from ${PROGRESS}) <> ${this.#statements}`
      : HAS_TABLES
    const before = [`select ${failWhen(isNotAsAsked, 'as asked')}`]
    if (this.#hasCheckpoint) return { before, after: [`update ${PROGRESS} set statements = ${end}`] }
    const count = isLast
      ? []
      : [`create table ${PROGRESS} (statements integer not null)`, `insert into ${PROGRESS} values (${end})`]
    return { before, after: count }
  }

  /** Statements that are applied, as the database counts them; null when it does not. */
  async #readCheckpoint(): Promise<number | null> {
    try {
      const [row] = (await this.#execute(`select statements from ${PROGRESS}`)).rows
      // whatever the client's `intMode` makes of it
      return row ? Number((row as ObjectRow)['statements']) : null
    } catch (error) {
      if (error instanceof SqlError && /no such table/i.test(error.message)) return null
      throw error
    }
  }
}

function notEmptyError(checkpoint: number | null | undefined): TypeError {
  if (checkpoint == null)
    return new TypeError('the database has tables already: restore() wants an empty one')
  return new TypeError(
    `a restore stopped here after ${checkpoint} statements: go on with { resume: true }, or begin with an empty database`,
  )
}

/** The error of a statement with its place in the source. */
function withPlace(error: DatabaseError, own: RestoreBatch['statements'], before: number): DatabaseError {
  if (!(error instanceof SqlError) || error.statementIndex === null) return error
  const statement = own[error.statementIndex - before]
  if (!statement) return error
  const message = `statement ${statement.at + 1}: ${error.message}`
  return Object.assign(error, { message, statementIndex: statement.at })
}
