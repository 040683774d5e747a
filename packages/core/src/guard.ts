import { type BatchSteps, ifAll, ifError, ifInTransaction, ifOk } from './batch.ts'

/**
 * Keeps statements of a transaction from running outside it. The server may have ended the transaction by itself
 * (write slot taken over, disk full, OR ROLLBACK, …); a statement sent after that would run, and stay, on its own.
 */
export interface Guard {
  /** Condition, as wire JSON, under which the next statement may run. */
  next(steps: BatchSteps): string
  /** Tells that step `begin` begins the transaction. */
  begun(begin: number): void
}

/** `/v3`: the server itself can tell. */
export class AutocommitGuard implements Guard {
  next(): string {
    return ifInTransaction
  }

  begun(): void {}
}

/**
 * `/v2` has no such condition, so a BEGIN is tried before each statement: within a transaction it fails and changes
 * nothing; when it succeeds, the transaction was lost, and it is taken back. (A savepoint of ours could not do this: it
 * would swallow the user's own.)
 */
export class ProbeGuard implements Guard {
  /** Holds after BEGIN and as long as every probe failed. A step that was skipped counts as failed. */
  readonly #inTransaction: string[] = []

  next(steps: BatchSteps): string {
    const probe = steps.addSql(
      'BEGIN',
      this.#inTransaction.length === 0 ? undefined : ifAll(this.#inTransaction),
    )
    steps.addSql('ROLLBACK', ifOk(probe))
    this.#inTransaction.push(ifError(probe))
    return ifAll(this.#inTransaction)
  }

  begun(begin: number): void {
    this.#inTransaction.push(ifOk(begin))
  }
}
