import { addChain, atomicBatch, BatchSteps, batchResult, chainResults, ifOk } from './batch.ts'
import { SqlError, StreamError } from './errors.ts'
import type { BatchOptions } from './executor.ts'
import { AutocommitGuard, ProbeGuard } from './guard.ts'
import type { CallOptions } from './http.ts'
import { executeRequest } from './pipeline.ts'
import { type ArrayRow, decodeResult, type ObjectRow, type ResultSet } from './result.ts'
import { type EncodedStatement, transactionControl } from './statement.ts'
import type { IntMode } from './value.ts'
import type { WireBatchResult, WireError, WireResult, WireStreamResult } from './wire.ts'

type Results = ResultSet<ObjectRow | ArrayRow>[]

/** Work of one call, waiting for the next request of its stream. */
export interface Entry {
  /** One statement, or several of which none runs after one that failed. */
  readonly statements: readonly EncodedStatement[]
  /** Control statements (BEGIN, SAVEPOINT, RELEASE, ROLLBACK TO) that travel in front. */
  lead: readonly string[]
  readonly inTransaction: boolean
  /** COMMIT and ROLLBACK have a request of their own. */
  readonly endsTransaction: boolean
  /** Sent by itself, because the server refused the request that it shared with others. */
  alone: boolean
  readonly options: BatchOptions
  readonly resolve: (results: Results) => void
  readonly reject: (error: unknown) => void
}

interface EntrySteps {
  readonly lead: readonly number[]
  readonly first: number
}

/** Protocol version of a pipeline route. */
export type ProtocolVersion = 2 | 3

/** What one HTTP request does for the entries it carries. */
export class StreamRequest {
  readonly entries: readonly Entry[]
  readonly #steps: EntrySteps[] = []

  constructor(entries: readonly Entry[]) {
    this.entries = entries
  }

  /** Writes the operation as wire JSON. */
  encode(version: ProtocolVersion): string {
    const [entry] = this.entries as [Entry]
    this.#steps.length = 0
    if (entry.inTransaction) return this.#encodeGuarded(version)
    if (entry.statements.length === 1) return executeRequest(entry.statements[0]!.json)
    const { steps, first } = atomicBatch(entry.statements, entry.options.mode ?? 'immediate')
    this.#steps.push({ lead: [], first })
    return steps.toRequest()
  }

  #encodeGuarded(version: ProtocolVersion): string {
    const steps = new BatchSteps()
    const guard = version === 3 ? new AutocommitGuard() : new ProbeGuard()
    for (const { lead, statements } of this.entries) {
      let condition: string | undefined
      const leadSteps = lead.map((sql) => {
        const begins = transactionControl(sql) === 'begin'
        const step = steps.addSql(sql, begins ? undefined : (condition ?? guard.next(steps)))
        if (begins) guard.begun(step)
        condition = ifOk(step)
        return step
      })
      condition ??= guard.next(steps)
      this.#steps.push({ lead: leadSteps, first: addChain(steps, statements, condition) })
    }
    return steps.toRequest()
  }

  /**
   * Hands the results out to the callers.
   * @returns what the answer says about the stream
   */
  settle(result: WireStreamResult | undefined, intMode: IntMode): Settled {
    const [entry] = this.entries as [Entry]
    if (result?.type === 'error') return this.#settleRefused(result.error)
    if (!entry.inTransaction) {
      settle(entry, () =>
        entry.statements.length === 1
          ? [decodeResult(result?.response.result as WireResult, decodeOptions(entry, intMode))]
          : chainResults(
              batchResult(result, null),
              this.#steps[0]!.first,
              entry.statements,
              decodeOptions(entry, intMode),
            ),
      )
      return { lost: null }
    }
    const batch = batchResult(result, null)
    let lost: StreamError | null = null
    for (const [at, each] of this.entries.entries()) {
      lost ??= findLoss(this.#steps[at] as EntrySteps, each, batch)
      if (lost !== null)
        each.reject(
          at === 0 && lost.cause instanceof SqlError && lost.code === 'TRANSACTION_LOST' ? lost.cause : lost,
        )
      else
        settle(each, () =>
          chainResults(batch, this.#steps[at]!.first, each.statements, decodeOptions(each, intMode)),
        )
    }
    return { lost }
  }

  /** Refused as a whole, so nothing ran. One of several spoils it for all: each has to go by itself. */
  #settleRefused(error: WireError): Settled {
    if (this.entries.length > 1) {
      for (const entry of this.entries) entry.alone = true
      return { lost: null, again: this.entries }
    }
    const [entry] = this.entries as [Entry]
    entry.reject(new SqlError(error, entry.statements.length === 1 ? entry.statements[0]!.sql : null))
    return { lost: null, lead: entry.lead }
  }

  /** Deadline and abort signals of the calls that share this request. */
  callOptions(): CallOptions {
    const options = this.entries.map((entry) => entry.options)
    if (options.length === 1) return options[0] as CallOptions
    const times = options.flatMap(({ timeoutMs }) => timeoutMs ?? [])
    const signals = options.flatMap(({ signal }) => signal ?? [])
    return {
      ...(times.length > 0 && { timeoutMs: Math.min(...times) }),
      ...(signals.length > 0 && { signal: AbortSignal.any(signals) }),
    }
  }
}

export interface Settled {
  /** Set when the transaction is gone. */
  readonly lost: StreamError | null
  /** Entries to be sent once more. */
  readonly again?: readonly Entry[]
  /** Control statements that have not taken place and still have to. */
  readonly lead?: readonly string[]
}

function settle(entry: Entry, read: () => Results): void {
  try {
    entry.resolve(read())
  } catch (error) {
    entry.reject(error)
  }
}

const decodeOptions = (
  { options }: Entry,
  intMode: IntMode,
): { intMode: IntMode; rowMode: 'object' | 'array' } => ({
  intMode,
  rowMode: options.rowMode ?? 'object',
})

function findLoss({ lead, first }: EntrySteps, entry: Entry, batch: WireBatchResult): StreamError | null {
  for (const step of [...lead, first]) {
    const error = batch.step_errors[step]
    if (error?.code === 'TRANSACTION_TIMEOUT') {
      const message = 'another writer took over after this transaction had held the write slot for 5 s'
      return new StreamError('TRANSACTION_EXPIRED', message, new SqlError(error))
    }
    if (error && step !== first) {
      const sql = entry.lead[lead.indexOf(step)] as string
      return new StreamError('TRANSACTION_LOST', `${sql} failed: ${error.message}`, new SqlError(error, sql))
    }
    // neither done nor refused: the guard held it back
    if (!error && !batch.step_results[step]) {
      return new StreamError(
        'TRANSACTION_LOST',
        'the server had ended the transaction; nothing of it was kept',
      )
    }
  }
  return null
}
