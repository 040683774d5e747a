import type { ServerPlan } from './model-server.ts'
import type { Orm } from './orm-transactions.ts'

/** The events of one run of the simulation. Consists of plain data, so that it can be printed, stored and shrunk. */
export interface History {
  /** Seed of delays and of the order of simultaneous events; 0: all delays are 1 ms. */
  readonly seed: number
  readonly server: ServerPlan
  readonly clients: readonly ClientPlan[]
  readonly tasks: readonly Task[]
  /** Faults, by the number of the request. */
  readonly faults: readonly Fault[]
  readonly events?: readonly ServerEvent[]
}

/** The options of a client. */
export interface ClientPlan {
  readonly coalesce?: boolean
  readonly requestTimeoutMs?: number
  readonly transactionTimeoutMs?: number
  readonly writeLockTimeoutMs?: number
  readonly maxRetries?: number
  readonly concurrency?: number
  readonly queueLimit?: number
  readonly readYourWrites?: boolean
  /** Whether `fetch` ignores its signal. */
  readonly ignoresAbort?: boolean
  readonly observes?: boolean
  /** The token function: how long it takes, and which of its calls fail. */
  readonly token?: { readonly ms: number; readonly fails?: readonly number[] }
}

/** A program that runs independently. */
export interface Task {
  readonly client: number
  readonly atMs: number
  readonly steps: readonly Step[]
}

/** A statement, and its special properties. */
export type Sql =
  | 'insert'
  | 'returning'
  | 'select'
  | 'commented select'
  /** Has a result so large that two do not fit in one response. */
  | 'large'
  /** Has a result that the server cannot write as JSON. */
  | 'unreadable'
  | 'constraint'
  | 'or rollback'
  | 'or fail'
  | 'unparsable'
  | 'missing table'
  | 'pragma'
  | 'child'
  | 'parent'
  | 'savepoint p'
  | 'rollback to p'
  | 'release p'
  | 'begin'
  | 'commit'
  /** Two statements in one SQL string; the first ends a transaction. */
  | 'commit; insert'
  | 'rollback'

/** How a call is made. */
export interface CallPlan {
  /** When it is awaited: by the next `await` step (`later`), never, or by default at once. */
  readonly wait?: 'later' | 'never'
  /** Whether the program continues if it rejects. */
  readonly catches?: boolean
  readonly timeoutMs?: number
  /** When it is aborted, in ms after it was made; -1: before. */
  readonly abortMs?: number
  /** When it is aborted, in microtasks after it was made. */
  readonly abortTicks?: number
}

export type Step =
  | ({ readonly do: 'execute'; readonly sql: Sql; readonly on?: 'outer' | 'client' | 'ended' } & CallPlan)
  | ({
      readonly do: 'batch'
      readonly sql: readonly Sql[]
      readonly mode?: Mode
      readonly on?: 'outer' | 'client'
    } & CallPlan)
  | ({
      readonly do: 'optimistic'
      /** The writes that its callback returns. */
      readonly sql: readonly Sql[]
      /** How many times the callback reads the table before, and how long it then waits. */
      readonly reads: number
      readonly pauseMs?: number
      readonly maxConflicts: number
      readonly fallback?: 'none'
    } & CallPlan)
  | ({
      readonly do: 'script'
      readonly sql: readonly Sql[]
      /** The range of statements between BEGIN and COMMIT: the index of the first, and the index after the last. */
      readonly transactionRange?: readonly [number, number]
    } & CallPlan)
  | ({
      readonly do: 'rows'
      readonly sql: Sql
      /** Breaks out of the loop at this row. */
      readonly take?: number
      readonly throws?: boolean
      /** The steps that are run at the first row. */
      readonly steps?: readonly Step[]
      readonly on?: 'client' | 'outer'
    } & CallPlan)
  | ({
      readonly do: 'transaction'
      /** The query builder that makes it; by default the client. */
      readonly orm?: Orm
      readonly mode?: Mode
      readonly retry?: number
      readonly steps: readonly Step[]
      readonly throws?: boolean
    } & CallPlan)
  | ({
      readonly do: 'savepoint'
      readonly steps: readonly Step[]
      readonly throws?: boolean
      readonly on?: 'outer'
    } & CallPlan)
  | ({ readonly do: 'stream'; readonly steps: readonly Step[]; readonly staysOpen?: boolean } & CallPlan)
  | ({ readonly do: 'chain'; readonly sql: readonly Sql[] } & CallPlan)
  | { readonly do: 'begin'; readonly mode?: Mode }
  /** Calls `savepoint()`, `rollbackTo()` or `release()` of the stream. */
  | { readonly do: 'mark'; readonly name: string }
  | { readonly do: 'undo'; readonly name: string }
  | { readonly do: 'forget'; readonly name: string }
  | ({ readonly do: 'commit' } & CallPlan)
  | ({ readonly do: 'rollback' } & CallPlan)
  | ({ readonly do: 'close stream' } & CallPlan)
  | ({ readonly do: 'health' } & CallPlan)
  | { readonly do: 'sleep'; readonly ms: number }
  | { readonly do: 'ticks'; readonly count: number }
  /** Awaits the calls with `wait: 'later'`. */
  | { readonly do: 'await'; readonly catches?: boolean }
  /** Makes calls in the same tick, and awaits all of them. */
  | { readonly do: 'together'; readonly steps: readonly Step[]; readonly catches?: boolean }
  | ({ readonly do: 'close'; readonly drainMs?: number } & CallPlan)

export type Mode = 'immediate' | 'deferred' | 'readonly'

/** The fault of one request. */
export interface Fault {
  /** Number of the request, from 0. */
  readonly request: number
  readonly kind: FaultKind
  /** Duration or fraction, for faults that have one. */
  readonly value?: number
}

export type FaultKind =
  /** The request is lost in transit. */
  | 'lost'
  /** Its response is lost in transit. */
  | 'response lost'
  /** A proxy sends it twice, one after the other, and returns the second response. */
  | 'repeated'
  /** The response's body is truncated with an error, or as if it ended there. */
  | 'truncated'
  | 'truncated silently'
  /** A proxy responds in place of the server, with the status `value`. `refused after`: after the server has run the request. */
  | 'refused'
  | 'refused as html'
  | 'refused after'
  /** A response in JSON that does not belong to this request; `value` determines which. */
  | 'foreign response'
  /** Neither a response nor an error ever arrives. */
  | 'no response'
  | 'lost silently'
  /** The server takes `value` ms per statement. */
  | 'slow'
  /** The response takes `value` ms longer. */
  | 'late'
  /** The lock is held by another writer. */
  | 'busy'

/** An event of the server. */
export interface ServerEvent {
  readonly atMs: number
  readonly kind: 'restart' | 'restart with a lower index' | 'token expires'
}

/** Returns the range of statements of a script between BEGIN and COMMIT; null for any other call, or for a script without them. */
export const getTransactionRange = (plan: object): readonly [number, number] | null =>
  (plan as { readonly transactionRange?: readonly [number, number] }).transactionRange ?? null
