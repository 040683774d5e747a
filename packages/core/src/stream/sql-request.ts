import { BatchSteps, ifNot, ifOk, TransactionGuard, withIndex } from '../codec/batch.ts'
import { type ArrayRow, decodeResult, type ObjectRow, type ResultSet } from '../codec/result.ts'
import { type EncodedStatement, encodeSql, isReadOnly, transactionControl } from '../codec/statement.ts'
import type { IntMode } from '../codec/value.ts'
import { ProtocolError, SqlError, type StreamError } from '../errors.ts'
import { TRANSACTION_WINDOW_MS } from '../limits.ts'
import type { CallOptions, StatementOptions } from '../options.ts'
import type { WireBatchResult, WireError, WireResult, WireStreamResult } from '../wire.ts'

export type Results = ResultSet<ObjectRow | ArrayRow>[]

/** Work of one call, on its way to the server. */
export interface Entry {
  /** One statement, or several of which none runs after one that failed. */
  readonly statements: readonly EncodedStatement[]
  /** `alone` outside a transaction, as a `chain` one after the other; `atomic` as a transaction of its own; `inside` the stream's. */
  readonly place: 'alone' | 'chain' | 'atomic' | 'inside'
  /** Control statements (BEGIN, SAVEPOINT, RELEASE, ROLLBACK TO) that travel in front. */
  lead: readonly string[]
  /** Whether it may travel with other entries. */
  shares: boolean
  readonly options: StatementOptions
  /** When the call was made, by the clock of `performance`. */
  readonly since?: number
  /** Takes it out of the hands of its deadline and signal, which the request has from then on. */
  release?: () => void
  readonly resolve: (results: Results) => void
  readonly reject: (error: unknown) => void
}

/** What the answer means for the stream. */
export interface Settled {
  /** Nothing ran: these have to be sent once more. */
  readonly again?: readonly Entry[]
  /** Control statements that have not taken place and still have to. */
  readonly lead?: readonly string[]
  /** Every statement of a batch went well. */
  readonly isDone?: boolean
}

/** Declares a transaction gone. @returns its error, the first one if there was one before */
export type Lose = (code: StreamError['code'], message: string, cause?: unknown) => StreamError

const COMMIT = encodeSql('COMMIT')

/** The SQL operation of one HTTP request: what it says for its entries, and what they hear. */
export class SqlRequest {
  readonly entries: readonly Entry[]
  /** For each entry the numbers of its steps: the lead's, then the statements'. */
  #steps: number[][] = []

  constructor(entries: readonly Entry[]) {
    this.entries = entries
  }

  /** Writes it as wire JSON. */
  encode(isV3: boolean, index: string | null = null): string {
    const [entry] = this.entries as [Entry]
    if (entry.place === 'alone')
      return `{"type":"execute","stmt":${withIndex(entry.statements[0]?.json, index)}}`
    const steps = new BatchSteps()
    const guard = new TransactionGuard(isV3)
    this.#steps = this.entries.map(({ lead, statements, place }) => {
      const own: number[] = []
      // each depends on the one before: the server goes on with the steps of a batch whose client has left
      const condition = (): string => {
        if (own.length > 0) return ifOk(own.at(-1) as number)
        return place === 'inside' ? guard.next(steps) : ''
      }
      for (const sql of lead) {
        const begins = transactionControl(sql) === 'begin'
        own.push(steps.addSql(sql, begins && place === 'inside' ? '' : condition()))
        if (begins) guard.begun(own.at(-1) as number)
      }
      for (const { json } of statements) own.push(steps.add(json, condition()))
      if (place === 'atomic') {
        own.push(steps.add(COMMIT.json, condition()))
        steps.addSql('ROLLBACK', ifNot(ifOk(own.at(-1) as number)))
      }
      return own
    })
    return steps.toRequest(index)
  }

  /** Hands the results out to the entries. @param lose makes the one error of a transaction that turns out to be gone */
  settle(answer: WireStreamResult | undefined, intMode: IntMode, lose?: Lose): Settled {
    try {
      return this.#settle(answer, intMode, lose)
    } catch (error) {
      throw ProtocolError.of(error)
    }
  }

  #settle(answer: WireStreamResult | undefined, intMode: IntMode, lose: Lose | undefined): Settled {
    const [entry] = this.entries as [Entry]
    if (answer?.type === 'error')
      return this.#refused(answer.error, entry.place === 'inside' ? lose : undefined)
    if (entry.place === 'alone') {
      settle(entry, () => [decode(answer?.response.result as WireResult, entry, intMode)])
      return {}
    }
    const batch = answer?.response.result as WireBatchResult | undefined
    if (!Array.isArray(batch?.step_results)) throw new ProtocolError('a batch without step results')
    let isDone = true
    for (const [at, own] of this.#steps.entries()) {
      const each = this.entries[at] as Entry
      const wentWell = settle(each, () => {
        if (lose) checkTransaction(own, each, batch, lose)
        return readChain(own, each, batch, intMode)
      })
      isDone = isDone && wentWell
    }
    return { isDone }
  }

  /** Refused as a whole. */
  #refused(wireError: WireError, lose: Lose | undefined): Settled {
    const [entry, ...others] = this.entries as [Entry, ...Entry[]]
    const { statements, lead, place } = entry
    const error = new SqlError(wireError, statements.length === 1 ? statements[0]?.sql : null)
    // what the server's parser refuses has not run, and it spoils it for all: each has to go by itself
    const ranNothing = /^(SQL|ARGS)_/.test(error.code)
    if (ranNothing && others.length > 0) {
      for (const each of this.entries) each.shares = false
      return { again: this.entries }
    }
    // what came of an answer that is too large is not told; only reads are sure to have done nothing
    const isHarmless = ranNothing || (others.length === 0 && lead.length === 0 && this.isRead)
    const lost = !isHarmless && lose?.('TRANSACTION_LOST', 'the server did not tell what was done', error)
    for (const each of this.entries) each.reject(lost || error)
    return ranNothing && place === 'inside' ? { lead } : {}
  }

  /** Whether it does no harm to send it twice, as the first of its stream. */
  get isRead(): boolean {
    return this.entries.every(
      ({ options, statements }) => options.readOnly ?? statements.every(({ sql }) => isReadOnly(sql)),
    )
  }

  /** Whether the state it sees is decided with it; within a transaction that was as it began. */
  get isFirst(): boolean {
    const [{ place, lead }] = this.entries as [Entry]
    return place !== 'inside' || transactionControl(lead[0] ?? '') === 'begin'
  }

  /** Whether it takes the write slot, as far as the texts tell. */
  get writes(): boolean {
    return this.entries.some(
      ({ lead, statements }) =>
        /immediate|exclusive/i.test(lead[0] ?? '') || statements.some(({ sql }) => !isReadOnly(sql)),
    )
  }

  get lastSql(): string | undefined {
    return this.entries.at(-1)?.statements.at(-1)?.sql
  }

  /** Deadline and abort signals of the calls that share the request. */
  callOptions(): CallOptions {
    const all = this.entries.map((entry) => entry.options)
    const signals = all.flatMap(({ signal }) => signal ?? [])
    const now = performance.now()
    const times = this.entries.flatMap(({ options, since = now }) =>
      options.timeoutMs === undefined ? [] : Math.max(1, options.timeoutMs - (now - since)),
    )
    return {
      signal: signals.length > 1 ? AbortSignal.any(signals) : signals[0],
      timeoutMs: times.length > 0 ? Math.min(...times) : undefined,
    }
  }
}

/** @returns whether it went well */
function settle(entry: Entry, read: () => Results): boolean {
  try {
    entry.resolve(read())
    return true
  } catch (error) {
    entry.reject(ProtocolError.of(error))
    return false
  }
}

const decode = (result: WireResult, { options }: Entry, intMode: IntMode): Results[number] =>
  decodeResult(result, intMode, options.rowMode)

/** @throws SqlError with the results before it, for the first step that failed */
function readChain(own: readonly number[], entry: Entry, batch: WireBatchResult, intMode: IntMode): Results {
  const { lead, statements, place } = entry
  const results: Results = []
  for (const [at, step] of own.entries()) {
    const index = at - lead.length
    const statement = statements[index]
    const error = batch.step_errors[step]
    const isBatch = place === 'atomic' || statements.length > 1
    if (error)
      throw new SqlError(error, statement?.sql ?? lead[at], statement && isBatch ? index : null, results)
    const result = batch.step_results[step]
    if (!result) throw new ProtocolError('a step of the batch was left out')
    if (statement) results.push(decode(result, entry, intMode))
  }
  return results
}

/** @throws the error of the transaction when it is gone; SqlError when it did not come about */
function checkTransaction(own: readonly number[], { lead }: Entry, batch: WireBatchResult, lose: Lose): void {
  for (const [at, step] of own.slice(0, lead.length + 1).entries()) {
    const refused = batch.step_errors[step]
    if (refused) {
      const cause = new SqlError(refused, lead[at])
      if (cause.code === 'TRANSACTION_TIMEOUT') {
        const seconds = TRANSACTION_WINDOW_MS / 1000
        throw lose('TRANSACTION_EXPIRED', `another writer took the write slot after ${seconds} s`, cause)
      }
      if (at < lead.length) {
        lose('TRANSACTION_LOST', `${lead[at]} failed`, cause)
        throw cause
      }
    } else if (!batch.step_results[step]) {
      // neither done nor refused: the guard held it back
      throw lose('TRANSACTION_LOST', 'the server had ended the transaction')
    }
  }
}
