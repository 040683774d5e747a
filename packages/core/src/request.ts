import { BatchSteps, ifNot, ifOk, TransactionGuard } from './batch.ts'
import { ProtocolError, SqlError, type StreamError } from './errors.ts'
import type { StatementOptions } from './executor.ts'
import type { CallOptions } from './http.ts'
import { TRANSACTION_WINDOW_MS } from './limits.ts'
import { type ArrayRow, decodeResult, type ObjectRow, type ResultSet } from './result.ts'
import { type EncodedStatement, encodeSql, isReadOnly, transactionControl } from './statement.ts'
import type { IntMode } from './value.ts'
import type { WireBatchResult, WireError, WireResult, WireStreamResult } from './wire.ts'

export type Results = ResultSet<ObjectRow | ArrayRow>[]

/** Work of one call, on its way to the server. */
export interface Entry {
  /** One statement, or several of which none runs after one that failed. */
  readonly statements: readonly EncodedStatement[]
  /** `alone` outside a transaction; `atomic` as a transaction of its own; `inside` the stream's transaction. */
  readonly place: 'alone' | 'atomic' | 'inside'
  /** Control statements (BEGIN, SAVEPOINT, RELEASE, ROLLBACK TO) that travel in front. */
  lead: readonly string[]
  /** Whether it may travel with other entries. */
  shares: boolean
  readonly options: StatementOptions
  readonly resolve: (results: Results) => void
  readonly reject: (error: unknown) => void
}

/** What the answer means for the stream. */
export interface Settled {
  /** Nothing ran: these have to be sent once more. */
  readonly again?: readonly Entry[]
  /** Control statements that have not taken place and still have to. */
  readonly lead?: readonly string[]
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
  encode(isV3: boolean): string {
    const [entry] = this.entries as [Entry]
    if (entry.place === 'alone') return `{"type":"execute","stmt":${entry.statements[0]?.json}}`
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
    return steps.toRequest()
  }

  /** Hands the results out to the entries. @param lose makes the one error of a transaction that turns out to be gone */
  settle(answer: WireStreamResult | undefined, intMode: IntMode, lose?: Lose): Settled {
    const [entry] = this.entries as [Entry]
    if (answer?.type === 'error') return this.#refused(answer.error)
    if (entry.place === 'alone') {
      settle(entry, () => [decode(answer?.response.result as WireResult, entry, intMode)])
      return {}
    }
    const batch = answer?.response.result as WireBatchResult | undefined
    if (!Array.isArray(batch?.step_results)) throw new ProtocolError('a batch without step results')
    for (const [at, own] of this.#steps.entries()) {
      const each = this.entries[at] as Entry
      settle(each, () => {
        if (lose) checkTransaction(own, each, batch, lose)
        return readChain(own, each, batch, intMode)
      })
    }
    return {}
  }

  /** Refused as a whole, so nothing ran. One of several spoils it for all: each has to go by itself. */
  #refused(error: WireError): Settled {
    const [entry, ...others] = this.entries as [Entry, ...Entry[]]
    if (others.length > 0) {
      for (const each of this.entries) each.shares = false
      return { again: this.entries }
    }
    entry.reject(new SqlError(error, entry.statements.length === 1 ? entry.statements[0]?.sql : null))
    return entry.place === 'inside' ? { lead: entry.lead } : {}
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
    const times = all.flatMap(({ timeoutMs }) => timeoutMs ?? [])
    return {
      signal: signals.length > 1 ? AbortSignal.any(signals) : signals[0],
      timeoutMs: times.length > 0 ? Math.min(...times) : undefined,
    }
  }
}

function settle(entry: Entry, read: () => Results): void {
  try {
    entry.resolve(read())
  } catch (error) {
    entry.reject(error)
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
    const error = batch.step_errors[step]
    if (error?.code === 'TRANSACTION_TIMEOUT') {
      const seconds = TRANSACTION_WINDOW_MS / 1000
      throw lose(
        'TRANSACTION_EXPIRED',
        `another writer took the write slot after ${seconds} s`,
        new SqlError(error),
      )
    }
    if (error && at < lead.length) {
      const cause = new SqlError(error, lead[at])
      lose('TRANSACTION_LOST', `${lead[at]} failed`, cause)
      throw cause
    }
    // neither done nor refused: the guard held it back
    if (!error && !batch.step_results[step])
      throw lose('TRANSACTION_LOST', 'the server had ended the transaction')
  }
}
