import { pick } from '../../support/random.ts'

/** One request to a server, and which of the two clients sent it. */
export interface ModelExchange {
  readonly client: 0 | 1
  readonly route: '/v2/pipeline' | '/v3/pipeline' | '/v3/cursor'
  readonly baton: 'none' | 'newest' | 'older' | 'garbage'
  readonly requests: readonly unknown[]
}

/** Generates requests that the model supports. Each row has a unique number. */
export class RequestGenerator {
  readonly #random: () => number
  #tag = 0
  #child: number | null = null

  constructor(random: () => number) {
    this.#random = random
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below)
  }

  exchange(): ModelExchange {
    const route = pick(this.#random, ['/v2/pipeline', '/v3/pipeline', '/v3/pipeline', '/v3/cursor'] as const)
    const choice = this.#int(20)
    const baton = choice < 4 ? 'none' : choice < 5 ? 'older' : choice < 6 ? 'garbage' : 'newest'
    const isV3 = route !== '/v2/pipeline'
    const requests =
      route === '/v3/cursor'
        ? [this.#batch(isV3)]
        : Array.from({ length: this.#int(4) }, () => this.#request(isV3))
    return { client: this.#int(2) as 0 | 1, route, baton, requests }
  }

  #request(isV3: boolean): unknown {
    const choice = this.#int(20)
    if (choice < 8) return { type: 'execute', stmt: { sql: this.#sql() } }
    if (choice < 15) return this.#batch(isV3)
    if (choice < 17)
      return {
        type: 'sequence',
        sql: Array.from({ length: 1 + this.#int(3) }, () => this.#validSql()).join(';'),
      }
    if (choice < 18) return { type: 'close' }
    return { type: 'get_autocommit' }
  }

  #batch(isV3: boolean): unknown {
    const steps = Array.from({ length: 1 + this.#int(4) }, (_, index) => ({
      stmt: { sql: this.#sql() },
      ...(this.#random() < 0.5 && { condition: this.#condition(index, isV3, 2) }),
    }))
    return { type: 'batch', batch: { steps } }
  }

  #condition(stepIndex: number, isV3: boolean, depth: number): unknown {
    const kind = this.#int(depth > 0 ? 6 : 3)
    // occasionally one that refers to a later step, which is rejected
    const step = stepIndex > 0 ? this.#int(this.#random() < 0.05 ? stepIndex + 1 : stepIndex) : null
    if (kind < 3) {
      if (step === null || (isV3 && this.#random() < 0.3))
        return { type: isV3 ? 'is_autocommit' : 'and', ...(!isV3 && { conds: [] }) }
      return { type: kind === 0 ? 'error' : 'ok', step }
    }
    if (kind === 3) return { type: 'not', cond: this.#condition(stepIndex, isV3, depth - 1) }
    const conds = Array.from({ length: this.#int(3) }, () => this.#condition(stepIndex, isV3, depth - 1))
    return { type: kind === 4 ? 'and' : 'or', conds }
  }

  #sql(): string {
    const choice = this.#int(40)
    if (choice === 0) return 'selec'
    if (choice === 1) return 'select a from missing'
    return this.#validSql()
  }

  #validSql(): string {
    const choice = this.#int(30)
    const tag = (this.#tag += 1)
    if (choice < 6) return `insert into t values (${tag})`
    if (choice < 7) return `insert into t values (${tag}) returning a`
    if (choice < 8) return 'insert into t values (null)'
    if (choice < 9) return 'insert or rollback into t values (null)'
    if (choice < 10) return `insert or fail into t values (${tag}), (null)`
    if (choice < 12) return `insert into child values (${(this.#child = tag)}, ${tag})`
    if (choice < 13 && this.#child !== null) {
      const child = this.#child
      this.#child = null
      return `insert into parent values (${child})`
    }
    if (choice < 17) return 'select a from t order by rowid'
    if (choice < 19)
      return pick(this.#random, ['begin', 'begin immediate', 'begin deferred', 'begin readonly'])
    if (choice < 22) return pick(this.#random, ['commit', 'commit', 'end', 'rollback'])
    return pick(this.#random, [
      'savepoint p',
      'release p',
      'rollback to p',
      'savepoint "q"',
      'release q',
      'select 1',
    ])
  }
}
