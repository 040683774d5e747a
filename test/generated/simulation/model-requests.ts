import { pick } from '../../support/random.ts'

/** One request to a server, and which of the two clients sent it. */
export interface ModelExchange {
  readonly client: 0 | 1
  readonly route: '/v2/pipeline' | '/v3/pipeline' | '/v3/cursor'
  readonly baton: 'none' | 'newest' | 'older' | 'garbage'
  readonly requests: readonly unknown[]
}

/** Generates requests in the language of the model. Each row has a unique number. */
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
    const at = this.#int(20)
    const baton = at < 4 ? 'none' : at < 5 ? 'older' : at < 6 ? 'garbage' : 'newest'
    const isV3 = route !== '/v2/pipeline'
    const requests =
      route === '/v3/cursor'
        ? [this.#batch(isV3)]
        : Array.from({ length: this.#int(4) }, () => this.#request(isV3))
    return { client: this.#int(2) as 0 | 1, route, baton, requests }
  }

  #request(isV3: boolean): unknown {
    const at = this.#int(20)
    if (at < 8) return { type: 'execute', stmt: { sql: this.#sql() } }
    if (at < 15) return this.#batch(isV3)
    if (at < 17)
      return {
        type: 'sequence',
        sql: Array.from({ length: 1 + this.#int(3) }, () => this.#validSql()).join(';'),
      }
    if (at < 18) return { type: 'close' }
    return { type: 'get_autocommit' }
  }

  #batch(isV3: boolean): unknown {
    const steps = Array.from({ length: 1 + this.#int(4) }, (_, index) => ({
      stmt: { sql: this.#sql() },
      ...(this.#random() < 0.5 && { condition: this.#condition(index, isV3, 2) }),
    }))
    return { type: 'batch', batch: { steps } }
  }

  #condition(at: number, isV3: boolean, depth: number): unknown {
    const kind = this.#int(depth > 0 ? 6 : 3)
    // occasionally one that refers to a later step, which is rejected
    const step = at > 0 ? this.#int(this.#random() < 0.05 ? at + 1 : at) : null
    if (kind < 3) {
      if (step === null || (isV3 && this.#random() < 0.3))
        return { type: isV3 ? 'is_autocommit' : 'and', ...(!isV3 && { conds: [] }) }
      return { type: kind === 0 ? 'error' : 'ok', step }
    }
    if (kind === 3) return { type: 'not', cond: this.#condition(at, isV3, depth - 1) }
    const conds = Array.from({ length: this.#int(3) }, () => this.#condition(at, isV3, depth - 1))
    return { type: kind === 4 ? 'and' : 'or', conds }
  }

  #sql(): string {
    const at = this.#int(40)
    if (at === 0) return 'selec'
    if (at === 1) return 'select a from missing'
    return this.#validSql()
  }

  #validSql(): string {
    const at = this.#int(30)
    const tag = (this.#tag += 1)
    if (at < 6) return `insert into t values (${tag})`
    if (at < 7) return `insert into t values (${tag}) returning a`
    if (at < 8) return 'insert into t values (null)'
    if (at < 9) return 'insert or rollback into t values (null)'
    if (at < 10) return `insert or fail into t values (${tag}), (null)`
    if (at < 12) return `insert into child values (${(this.#child = tag)}, ${tag})`
    if (at < 13 && this.#child !== null) {
      const child = this.#child
      this.#child = null
      return `insert into parent values (${child})`
    }
    if (at < 17) return 'select a from t order by rowid'
    if (at < 19) return pick(this.#random, ['begin', 'begin immediate', 'begin deferred', 'begin readonly'])
    if (at < 22) return pick(this.#random, ['commit', 'commit', 'end', 'rollback'])
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
