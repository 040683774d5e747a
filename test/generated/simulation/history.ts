import type { ServerPlan } from './model-server.ts'
import type { Orm } from './orm-transactions.ts'

/** The events of one run of the simulation. It is plain data, so that it can be printed, stored and shrunk. */
export interface History {
  /** Decides on delays and on what happens first of two things at the same time; 0: no delays but 1 ms. */
  readonly seed: number
  readonly server: ServerPlan
  readonly clients: readonly ClientPlan[]
  readonly tasks: readonly Task[]
  /** Faults of requests, by the number of the request. */
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
  /** `fetch` ignores its signal. */
  readonly ignoresAbort?: boolean
  readonly observes?: boolean
  /** The function for tokens: how long it takes, and which of its calls fail. */
  readonly token?: { readonly ms: number; readonly fails?: readonly number[] }
}

/** A program that runs by itself. */
export interface Task {
  readonly client: number
  readonly atMs: number
  readonly steps: readonly Step[]
}

/** A statement, by what is special with it. */
export type Sql =
  | 'insert'
  | 'returning'
  | 'select'
  | 'commented select'
  /** Has a result of which two are too large for one response. */
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
  /** Two statements in one text, of which the first ends a transaction. */
  | 'commit; insert'
  | 'rollback'

/** How a call is made. */
export interface CallPlan {
  /** `later`: by the next `gather`. `never`: not at all. Left out: at once. */
  readonly wait?: 'later' | 'never'
  /** The program continues if it rejects. */
  readonly catches?: boolean
  readonly timeoutMs?: number
  /** Time of its abort, in ms after it was made; -1: before. */
  readonly abortMs?: number
  /** Time of its abort, in microtasks after it was made. */
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
      readonly do: 'script'
      readonly sql: readonly Sql[]
      /** The statements between BEGIN and COMMIT: the first, and the one after the last. */
      readonly whole?: readonly [number, number]
    } & CallPlan)
  | ({
      readonly do: 'rows'
      readonly sql: Sql
      /** Leaves the loop at this row. */
      readonly take?: number
      readonly throws?: boolean
      /** The action at the first row. */
      readonly steps?: readonly Step[]
      readonly on?: 'client' | 'outer'
    } & CallPlan)
  | ({
      readonly do: 'transaction'
      /** The query builder by which it is made; left out: the client. */
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
  | { readonly do: 'mark'; readonly name: string }
  | { readonly do: 'undo'; readonly name: string }
  | { readonly do: 'forget'; readonly name: string }
  | ({ readonly do: 'commit' } & CallPlan)
  | ({ readonly do: 'rollback' } & CallPlan)
  | ({ readonly do: 'close stream' } & CallPlan)
  | ({ readonly do: 'health' } & CallPlan)
  | { readonly do: 'sleep'; readonly ms: number }
  | { readonly do: 'ticks'; readonly count: number }
  | { readonly do: 'gather'; readonly catches?: boolean }
  /** Makes calls in the same tick, and awaits them all. */
  | { readonly do: 'together'; readonly steps: readonly Step[]; readonly catches?: boolean }
  | ({ readonly do: 'close'; readonly drainMs?: number } & CallPlan)

export type Mode = 'immediate' | 'deferred' | 'readonly'

/** The fault of one request. */
export interface Fault {
  /** Number of the request, from 0. */
  readonly request: number
  readonly kind: FaultKind
  /** Time or share, for those that have one. */
  readonly value?: number
}

export type FaultKind =
  /** The request is lost on the way. */
  | 'lost'
  /** Its answer is lost on the way. */
  | 'answer lost'
  /** Something on the way sends it twice, one after the other; the second answer comes back. */
  | 'repeated'
  /** The answer's body breaks off with an error, or as if it ended there. */
  | 'cut'
  | 'cut silently'
  /** Something on the way answers in the server's place; `value` is the status. After: the server has done its work. */
  | 'refused'
  | 'refused as html'
  | 'refused after'
  /** An answer that is JSON, and none to this request; `value` says which. */
  | 'foreign answer'
  /** Neither an answer nor an error ever comes. */
  | 'no answer'
  | 'lost silently'
  /** The server takes `value` ms for each statement. */
  | 'slow'
  /** The answer takes `value` ms more. */
  | 'late'
  /** The lock is taken. */
  | 'busy'

/** An event of the server. */
export interface ServerEvent {
  readonly atMs: number
  readonly kind: 'restart' | 'restart with a lower index' | 'token expires'
}

/** Which statements of a script stand between BEGIN and COMMIT; null for another call, or where none do. */
export const wholeOf = (plan: object): readonly [number, number] | null =>
  (plan as { readonly whole?: readonly [number, number] }).whole ?? null
