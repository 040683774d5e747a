import {
  type Client,
  type ClientEvent,
  coalesce,
  createClient,
  executeMultiple,
  type InStatement,
  isHealthy,
  optimistic,
  readRows,
  type Transaction,
} from '@batonsql/core'
import { openStream, type Stream } from '@batonsql/core/adapter'
import { CallTracker, type Options } from './call-tracker.ts'
import { getTransactionRange, type History, type Sql, type Step, type Task } from './history.ts'
import { type Call, Ledger, type Scope } from './ledger.ts'
import type { Network } from './network.ts'
import { type OrmHandle, ormTransaction } from './orm-transactions.ts'
import { PlannedError } from './planned-error.ts'
import { callMark, statementText } from './statement-texts.ts'
import { type World, waitForMicrotasks } from './world.ts'

type Handle = Client | Transaction | Stream | OrmHandle

/** The handle and the scope that steps use. */
interface StepContext {
  readonly handle: Handle
  readonly scope: Scope
  /** The context around a savepoint. */
  readonly outer: StepContext | null
  /** Calls to be awaited by the next `await`. */
  readonly later: Promise<unknown>[]
  /** The transaction or stream whose rows the surrounding loop reads; null outside a loop. */
  readonly reading: Scope | null
}

/** Runs the tasks of a history on separate clients, and records every call. */
export class Program {
  readonly ledger: Ledger
  readonly clients: Client[]
  readonly clientScopes: Scope[]
  readonly events: ClientEvent[] = []
  /** Whether failures are no longer injected. */
  isFaultFree = false
  readonly #world: World
  readonly #history: History
  readonly #calls: CallTracker
  #lastChild = 0
  #pendingTasks = 0

  constructor(world: World, network: Network, history: History) {
    this.#world = world
    this.#history = history
    this.ledger = new Ledger(world)
    this.#calls = new CallTracker(world, this.ledger)
    this.clients = history.clients.map((plan, index) => {
      const { observes, token, coalesce: coalesces, ...options } = plan
      Reflect.deleteProperty(options, 'ignoresAbort')
      return createClient({
        url: `http://server${index}.test`,
        fetch: network.createFetch(index, plan),
        ...options,
        ...(coalesces && { coalesce }),
        ...(observes && {
          observe: (event) => {
            this.events.push(event)
            if ('error' in event) this.ledger.errors.record(event.error, false)
          },
        }),
        ...(token && { authToken: this.#createTokenProvider(token.ms, token.fails ?? []) }),
      })
    })
    this.clientScopes = this.clients.map((_, index) => this.ledger.openScope('client', index, null))
  }

  #createTokenProvider(ms: number, failingAttempts: readonly number[]): () => Promise<string> {
    let attempts = 0
    return async () => {
      const attempt = attempts++
      if (ms > 0 && !this.isFaultFree) await this.#world.sleep(ms)
      if (failingAttempts.includes(attempt) && !this.isFaultFree) throw new PlannedError('no token')
      return 'token'
    }
  }

  /** The signals passed to calls. */
  get signals(): CallTracker['signals'] {
    return this.#calls.signals
  }

  /** Whether everything that was started has settled. */
  get isSettled(): boolean {
    return this.#pendingTasks === 0 && this.ledger.pending === 0
  }

  start(): void {
    for (const task of this.#history.tasks) void this.#runTask(task)
  }

  /** Runs steps after the tasks. */
  async runSteps(client: number, steps: readonly Step[]): Promise<void> {
    await this.#runTask({ client, atMs: 0, steps })
  }

  async #runTask({ client, atMs, steps }: Task): Promise<void> {
    this.#pendingTasks += 1
    const scope = this.clientScopes[client]
    const handle = this.clients[client]
    try {
      if (atMs > 0) await this.#world.sleep(atMs)
      if (scope && handle)
        await this.#runSteps(steps, { handle, scope, outer: null, later: [], reading: null })
    } catch {
      // recorded in the ledger
    } finally {
      this.#pendingTasks -= 1
    }
  }

  async #runSteps(steps: readonly Step[], context: StepContext): Promise<void> {
    for (const step of steps) await this.#runStep(step, context)
  }

  async #runStep(step: Step, context: StepContext): Promise<void> {
    if (!isPossible(step, context.scope)) return
    switch (step.do) {
      case 'sleep':
        return await this.#world.sleep(step.ms)
      case 'ticks':
        return await waitForMicrotasks(step.count)
      case 'await': {
        const pendingCalls = context.later.splice(0)
        if (step.catches) await Promise.allSettled(pendingCalls)
        else await Promise.all(pendingCalls)
        return
      }
      case 'together': {
        const calls = step.steps.map((inner) => this.#runStep(inner, context))
        if (step.catches) await Promise.allSettled(calls)
        else await Promise.all(calls)
        return
      }
      case 'begin':
      case 'mark':
      case 'undo':
      case 'forget':
        return this.#callSync(step, context)
      default: {
        const promise = this.#startCall(step, context)
        // recorded in the ledger, whether or not it is awaited
        promise.catch(() => {})
        if (step.wait === 'later') context.later.push(promise)
        if (step.wait) return
        try {
          await promise
        } catch (error) {
          if (!step.catches) throw error
        }
      }
    }
  }

  /** Starts an asynchronous step. */
  #startCall(
    step: Exclude<
      Step,
      { do: 'sleep' | 'ticks' | 'await' | 'together' | 'begin' | 'mark' | 'undo' | 'forget' }
    >,
    context: StepContext,
  ): Promise<unknown> {
    switch (step.do) {
      case 'execute':
      case 'batch':
      case 'chain':
      case 'script':
      case 'rows':
        return this.#runStatements(step, context)
      case 'optimistic':
        return this.#runOptimistic(step, context)
      case 'transaction':
        return this.#runTransaction(step, context)
      case 'savepoint':
        return this.#runSavepoint(step, context)
      case 'stream':
        return this.#runStream(step, context)
      case 'commit':
      case 'rollback':
        return this.#endTransaction(step, context)
      case 'close stream':
        return this.#calls.track(this.#calls.open(context.scope, 'close stream', step), () =>
          (context.handle as Stream).close(),
        )
      case 'health': {
        const { scope, handle } = this.#getClient(context)
        return this.#calls.track(this.#calls.open(scope, 'health', step), (options) =>
          isHealthy(handle, options),
        )
      }
      default: {
        const { scope, handle } = this.#getClient(context)
        const { drainMs } = step
        const call = this.#calls.open(scope, 'close', step)
        return this.#calls.track(call, () => handle.close(drainMs === undefined ? {} : { drainMs }))
      }
    }
  }

  #getClient({ scope }: StepContext): { scope: Scope; handle: Client } {
    return { scope: this.clientScopes[scope.client] as Scope, handle: this.clients[scope.client] as Client }
  }

  #runStatements(
    step: Extract<Step, { do: 'execute' | 'batch' | 'chain' | 'script' | 'rows' }>,
    context: StepContext,
  ): Promise<unknown> {
    const on = 'on' in step ? step.on : undefined
    const target =
      on === 'client' || step.do === 'script'
        ? this.#getClient(context)
        : on === 'outer'
          ? (context.outer ?? context)
          : context
    const { handle, scope } = target
    const list = typeof step.sql === 'string' ? [step.sql] : step.sql
    const call = this.#calls.open(scope, step.do, step, list)
    if (context.reading === scope.root && scope.kind !== 'client') call.mistake = 'rows are being read'
    const texts = list.map((sql, index) => this.#toStatement(sql, call.tags[index] ?? 0, call))
    return this.#calls.track(call, (options): Promise<unknown> => {
      const db = handle as Client
      switch (step.do) {
        case 'execute':
          return db.execute(texts[0] as InStatement, undefined, options)
        case 'batch':
          return db.batch(texts, { ...options, ...(step.mode && { mode: step.mode }) })
        case 'chain':
          return (handle as Stream).chain(texts, options)
        case 'script': {
          const script = list.map((sql, index) => statementText(sql, call.tags[index] ?? 0, call.id))
          const [from, to] = getTransactionRange(step) ?? []
          if (from !== undefined) script.splice(from, 0, 'begin')
          if (to !== undefined) script.splice(to + 1, 0, 'commit')
          return executeMultiple(db, `${script.join(';\n')};\n`, options)
        }
        default:
          return this.#readRows(step, call, handle, texts[0] as InStatement, options, context)
      }
    })
  }

  #toStatement(sql: Sql, tag: number, call: Call): InStatement {
    if (sql === 'child') this.#lastChild = tag
    const text = statementText(sql, sql === 'parent' ? this.#lastChild : tag, call.id)
    // half of the values are passed as arguments
    return sql === 'insert' && tag % 2 === 1 && !call.scope.isOrm
      ? { sql: `insert into t values (?) ${callMark(call.id)}`, args: [tag] }
      : text
  }

  async #readRows(
    step: Extract<Step, { do: 'rows' }>,
    call: Call,
    handle: Handle,
    sql: InStatement,
    options: Options,
    context: StepContext,
  ): Promise<unknown[]> {
    const rows: unknown[] = []
    const innerContext = { ...context, later: [], reading: call.scope.root }
    const allRows = 'rows' in handle ? handle.rows(sql as string) : readRows(handle, sql, undefined, options)
    for await (const { a } of allRows) {
      rows.push(a)
      try {
        if (rows.length === 1 && step.steps) await this.#runSteps(step.steps, innerContext)
        if (rows.length === step.take && step.throws) throw new PlannedError('thrown in a loop over rows')
      } catch (error) {
        call.loopError = error
        throw error
      }
      if (rows.length === step.take) break
    }
    return rows
  }

  #runTransaction(step: Extract<Step, { do: 'transaction' }>, context: StepContext): Promise<unknown> {
    const { scope, handle } = this.#getClient(context)
    const call = this.#calls.open(scope, 'transaction', step)
    const { mode, retry, orm } = step
    if (orm)
      return this.#calls.track(call, () =>
        ormTransaction(handle, orm, (tx) => this.#runCallback(call, tx, 'transaction', null, step)),
      )
    return this.#calls.track(call, (options) =>
      handle.transaction((tx) => this.#runCallback(call, tx, 'transaction', null, step), {
        ...options,
        ...(mode && { mode }),
        ...(retry && { maxRetries: retry }),
      }),
    )
  }

  #runOptimistic(step: Extract<Step, { do: 'optimistic' }>, context: StepContext): Promise<unknown> {
    const { scope, handle } = this.#getClient(context)
    const call = this.#calls.open(scope, 'optimistic', step, step.sql)
    const writes = step.sql.map((sql, index) => this.#toStatement(sql, call.tags[index] ?? 0, call))
    const { maxConflicts, fallback, reads, pauseMs } = step
    return this.#calls.track(call, (options) =>
      optimistic(
        handle,
        async (tx) => {
          call.seen = null
          for (let count = 0; count < reads; count++) {
            const { rows } = await tx.execute<{ a: number }>(statementText('select', 0, call.id))
            call.seen = rows.map(({ a }) => a)
          }
          if (pauseMs !== undefined) await this.#world.sleep(pauseMs)
          return writes
        },
        { ...options, maxConflicts, ...(fallback && { fallback }) },
      ),
    )
  }

  #runSavepoint(step: Extract<Step, { do: 'savepoint' }>, context: StepContext): Promise<unknown> {
    const target = step.on === 'outer' ? (context.outer ?? context) : context
    const call = this.#calls.open(target.scope, 'savepoint', step)
    if (context.reading === target.scope.root) call.mistake = 'rows are being read'
    return this.#calls.track(call, (options) =>
      (target.handle as Transaction).savepoint(
        (tx) => this.#runCallback(call, tx, 'savepoint', target, step),
        options,
      ),
    )
  }

  async #runCallback(
    call: Call,
    handle: Transaction | OrmHandle,
    kind: 'transaction' | 'savepoint',
    outer: StepContext | null,
    { steps, throws }: { readonly steps: readonly Step[]; readonly throws?: boolean },
  ): Promise<unknown> {
    const isOrm = 'rows' in handle
    const scope = this.ledger.openScope(kind, call.scope.client, outer?.scope ?? call.scope, isOrm)
    call.inner.push(scope)
    try {
      await this.#runSteps(steps, { handle, scope, outer, later: [], reading: null })
      if (throws) throw new PlannedError(`call ${call.id} throws`)
      return scope.id
    } catch (error) {
      scope.hasThrown = true
      scope.thrown = error
      throw error
    } finally {
      scope.endedAt = Math.min(scope.endedAt, this.#world.turn)
      scope.expiresAt = isOrm ? null : handle.expiresAt
    }
  }

  async #runStream(step: Extract<Step, { do: 'stream' }>, context: StepContext): Promise<void> {
    const { handle } = this.#getClient(context)
    const scope = this.ledger.openScope('stream', context.scope.client, null)
    const stream = openStream(handle)
    this.#pendingTasks += 1
    try {
      await this.#runSteps(step.steps, { handle: stream, scope, outer: null, later: [], reading: null })
    } finally {
      this.#pendingTasks -= 1
      scope.endedAt = this.#world.turn
      scope.expiresAt = stream.expiresAt
      await this.#calls.track(this.#calls.open(scope, 'close stream', {}), () => stream.close())
    }
  }

  /** Commits a stream, or rolls back a stream, transaction or savepoint. */
  #endTransaction(
    step: Extract<Step, { do: 'commit' | 'rollback' }>,
    context: StepContext,
  ): Promise<unknown> {
    const { scope, handle } = context
    const call = this.#calls.open(scope, step.do, step)
    return this.#calls.track(call, (options) => {
      if (scope.kind === 'stream')
        return step.do === 'commit'
          ? (handle as Stream).commit(options)
          : (handle as Stream).rollback(options)
      if (scope.endedAt === Infinity) {
        scope.isRolledBack = true
        scope.endedAt = this.#world.turn
      }
      return (handle as Transaction).rollback()
    })
  }

  /** Makes a synchronous call, which is sent with the next statement. */
  #callSync(
    step: Extract<Step, { do: 'begin' | 'mark' | 'undo' | 'forget' }>,
    { scope, handle }: StepContext,
  ): void {
    const name = 'name' in step ? step.name : 'mode' in step ? step.mode : ''
    const call = this.#calls.open(scope, step.do, {}, [], name)
    const stream = handle as Stream
    try {
      if (step.do === 'begin') stream.begin(step.mode)
      else if (step.do === 'mark') stream.savepoint(step.name)
      else if (step.do === 'undo') stream.rollbackTo(step.name)
      else stream.release(step.name)
      this.ledger.succeed(call, undefined)
    } catch (error) {
      this.ledger.fail(call, error)
    }
  }
}

/** Returns whether a step is possible on a handle. A shrunk history may have steps in places where they are not possible. */
function isPossible({ do: operation }: Step, { kind, isOrm }: Scope): boolean {
  if (isOrm && /^(batch|rollback)$/.test(operation)) return false
  if (operation === 'savepoint') return kind === 'transaction' || kind === 'savepoint'
  if (operation === 'rollback') return kind !== 'client'
  return kind === 'stream' || !/^(chain|begin|mark|undo|forget|commit|close stream)$/.test(operation)
}
