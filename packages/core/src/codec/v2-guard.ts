import { addStep, type Guard, ifAll, ifNot, ifOk } from './batch.ts'
import { beginStatement, ROLLBACK } from './control.ts'

/**
 * The guard for servers without `/v3`. BEGIN is tried before each statement: inside a transaction it fails and changes nothing; if it
 * succeeds, the transaction was lost, and the BEGIN is rolled back. (A savepoint could not detect this without hiding the user's
 * own savepoints.)
 */
export class V2Guard implements Guard {
  readonly #inTransaction: string[] = []

  next(steps: string[]): string {
    const probe = addStep(steps, beginStatement('deferred').json, ifAll(this.#inTransaction))
    addStep(steps, ROLLBACK.json, ifOk(probe))
    this.#inTransaction.push(ifNot(ifOk(probe)))
    return ifAll(this.#inTransaction)
  }

  proveLoss(_: string[], callSteps: readonly number[]): number {
    // the BEGIN that was tried before these steps, followed by its ROLLBACK
    return (callSteps[0] as number) - 2
  }

  recordBegin(begin: number): void {
    this.#inTransaction.push(ifOk(begin))
  }
}
