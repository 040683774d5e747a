import { Chooser } from './chooser.ts'

import type { ClientPlan, Fault, FaultKind, History, ServerEvent, Task } from './history.ts'
import type { ServerPlan } from './model-server.ts'
import { CALL_TIMEOUTS_MS, makeProfile, type Profile } from './profile.ts'
import { StepGenerator } from './step-generator.ts'

const FAULTS: readonly FaultKind[] = [
  'lost',
  'response lost',
  'repeated',
  'truncated',
  'truncated silently',
  'refused',
  'refused as html',
  'refused after',
  'foreign response',
  'no response',
  'lost silently',
  'slow',
  'late',
  'busy',
]

/** How long each statement of a slow request takes, in ms. */
const SLOW_MS = [10, 300, 6_000]
/** On servers without batches, there is no guarantee if a request takes half of a transaction's time limit. */
const EXECUTE_ONLY_SLOW_MS = [10, 150]

/** Generates the history for a seed. */
export function generateHistory(seed: number): History {
  return new Generator(seed).generate()
}

class Generator {
  readonly #choose: Chooser
  readonly #profile: Profile
  readonly #steps: StepGenerator

  constructor(seed: number) {
    this.#choose = new Chooser(seed)
    this.#profile = makeProfile(this.#choose)
    this.#steps = new StepGenerator(this.#choose, this.#profile)
  }

  generate(): History {
    const clients = Array.from({ length: this.#choose.chance(0.25) ? 2 : 1 }, () => this.#makeClient())
    const tasks = this.#choose.list(3, () => this.#makeTask(clients.length))
    const seed = 1 + this.#choose.int(2 ** 31)
    const server = this.#choose.chance(0.2) ? { isTursodb: true } : this.#makeLibsqlServer()
    return {
      seed,
      server,
      clients,
      tasks,
      faults: this.#makeFaults('isExecuteOnly' in server ? EXECUTE_ONLY_SLOW_MS : SLOW_MS),
      ...(this.#profile.faults > 0 &&
        this.#choose.chance(0.15) && { events: this.#choose.list(2, () => this.#makeEvent()) }),
    }
  }

  #makeLibsqlServer(): ServerPlan {
    return {
      ...(this.#choose.chance(0.06) && { isOld: true }),
      ...(this.#choose.chance(0.06) && { isExecuteOnly: true }),
      ...(this.#choose.chance(0.04) && { hasNoCursor: true }),
      ...(this.#choose.chance(0.04) && { ignoresConditions: true }),
      ...(this.#choose.chance(0.05) && { lagMs: this.#choose.pick([1, 30, 500]) }),
      ...(this.#choose.chance(0.05) && { hasNoIndex: true }),
    }
  }

  #makeClient(): ClientPlan {
    return {
      ...(this.#choose.chance(0.3) && {
        coalesce: true,
      }),
      ...(this.#profile.hasTimeouts &&
        this.#choose.chance(0.5) && { requestTimeoutMs: this.#choose.pick(CALL_TIMEOUTS_MS) }),
      ...(this.#profile.hasTimeouts &&
        this.#choose.chance(0.3) && { transactionTimeoutMs: this.#choose.pick([10, 100, 1_000, 60_000]) }),
      ...(this.#profile.hasTimeouts &&
        this.#choose.chance(0.3) && { writeLockTimeoutMs: this.#choose.pick([10, 100, 1_000]) }),
      ...(this.#choose.chance(0.2) && { maxRetries: this.#choose.pick([0, 1, 5]) }),
      ...(this.#choose.chance(0.2) && { concurrency: this.#choose.pick([1, 2]) }),
      ...(this.#choose.chance(0.05) && { queueLimit: this.#choose.pick([1, 2]) }),
      ...(this.#choose.chance(0.1) && { readYourWrites: false }),
      ...(this.#choose.chance(0.2) && { ignoresAbort: true }),
      ...(this.#choose.chance(0.2) && { observes: true }),
      ...(this.#choose.chance(0.1) && {
        token: {
          ms: this.#choose.pick([0, 1, 10]),
          ...(this.#choose.chance(0.3) && { fails: [this.#choose.int(6)] }),
        },
      }),
    }
  }

  #makeTask(clients: number): Task {
    return {
      client: this.#choose.int(clients),
      atMs: this.#choose.pick([0, 0, 0, 1, 2, 5]),
      steps: this.#choose.list(3, () => this.#steps.clientStep()),
    }
  }

  #makeFaults(slowMs: readonly number[]): Fault[] {
    const first = this.#choose.int(12)
    return Array.from({ length: this.#profile.faults }, (_, index) => {
      const kind = this.#choose.pick(FAULTS)
      const value = kind === 'slow' ? this.#choose.pick(slowMs) : this.#makeValue(kind)
      return {
        request: first + index * (1 + this.#choose.int(4)),
        kind,
        ...(value !== undefined && { value }),
      }
    })
  }

  #makeValue(kind: FaultKind): number | undefined {
    switch (kind) {
      case 'refused':
      case 'refused as html':
        return this.#choose.pick([400, 401, 404, 429, 429, 500, 502, 503])
      case 'refused after':
        return this.#choose.pick([500, 502, 503, 504, 408])
      case 'truncated':
      case 'truncated silently':
        return this.#choose.pick([0, 0.1, 0.3, 0.5, 0.9])
      case 'foreign response':
        return this.#choose.int(10)
      case 'late':
        return this.#choose.pick([10, 300, 3_000, 15_000])
      default:
        return undefined
    }
  }

  #makeEvent(): ServerEvent {
    return {
      atMs: this.#choose.pick([1, 2, 3, 5, 10, 30, 100]),
      kind: this.#choose.pick(['restart', 'restart', 'restart with a lower index', 'token expires']),
    }
  }
}
