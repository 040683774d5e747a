import { addStep, ifAll, ifNot, ifOk } from './batch.ts'
import { beginStatement, ROLLBACK } from './control.ts'
import type { Guard } from './guard.ts'

/**
 * The guard for servers without `/v3`. BEGIN is tried before each statement: inside a transaction it fails and changes nothing; if it
 * succeeds, the transaction was lost, and the BEGIN is rolled back at the end of the request. (A savepoint could not detect this
 * without hiding the user's own savepoints.)
 */
export class V2Guard implements Guard {
  readonly tested: 'begin' | 'commit'
  readonly #inTransaction: string[] = []

  constructor(tested: 'begin' | 'commit') {
    this.tested = tested
  }

  next(steps: string[]): string {
    const probe = addStep(steps, beginStatement('deferred').json, ifAll(this.#inTransaction))
    this.#inTransaction.push(ifNot(ifOk(probe)))
    return ifAll(this.#inTransaction)
  }

  proveLoss(_: string[], callSteps: readonly number[]): number {
    // the BEGIN that was tried before these steps
    return (callSteps[0] as number) - 1
  }

  recordBegin(begin: number): void {
    this.#inTransaction.push(ifOk(begin))
  }

  end(steps: string[]): void {
    addStep(steps, ROLLBACK.json, ifNot(ifAll(this.#inTransaction)))
  }
}
