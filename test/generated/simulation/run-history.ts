import { ProtocolError } from '@batonsql/core'
import { checkErrors, getSlowness, QUICK_MS } from './allowed-errors.ts'
import { checkEvents } from './check-events.ts'
import { checkOutcomes } from './check-outcomes.ts'
import { checkReads } from './check-reads.ts'
import { checkRequests } from './check-requests.ts'
import { checkRetries } from './check-retries.ts'
import { checkRows, describeCall } from './check-rows.ts'
import { checkTimes } from './check-times.ts'
import type { History, Step } from './history.ts'
import type { Call } from './ledger.ts'
import { ModelServer } from './model-server.ts'
import { Network } from './network.ts'
import { Program } from './program.ts'
import { World } from './world.ts'

/** Time limit of a whole history, in ms; the programs' own sleeps are shorter. */
const HORIZON_MS = 600_000
/** Time in which a healthy client completes a write, a transaction and a read on a network without delays, in ms. */
const FOLLOW_UP_MS = 100
/** A pause longer than any delay before a retry, in ms. */
const LONG_PAUSE_MS = 1_100
/** Maximum number of write transactions that one client has on the server at a time. */
const MAX_WRITE_TRANSACTIONS = 2
/** Time for a client's work after its calls have settled: aborted requests, and the closing of streams. */
const DRAIN_MS = 3_500
/** Slightly longer than a client holds its write lock for a stream whose close request gets no response, in ms. */
const LOST_CLOSE_MS = 12_500
/** Time after which a server has closed all idle streams, one after another. */
const FAULTY_DRAIN_MS = 300_000

/** The outcome of a history. */
export interface Outcome {
  /** Descriptions of the guarantees that were violated. */
  readonly violations: readonly string[]
  readonly requests: number
  readonly calls: number
  /** Describes all events. */
  readonly report: () => string
}

/** Runs a complete history, and checks the client's guarantees. */
export async function runHistory(history: History): Promise<Outcome> {
  const world = new World(history.seed)
  world.enter()
  const server = new ModelServer(world, history.server)
  const network = new Network(world, server, history)
  const program = new Program(world, network, history)
  const run = new Run(world, server, network, program, history)
  const violations = await run.run()
  return {
    violations,
    requests: network.requests.length,
    calls: program.ledger.calls.length,
    report: () => run.report(),
  }
}

class Run {
  readonly #world: World
  readonly #server: ModelServer
  readonly #network: Network
  readonly #program: Program
  readonly #history: History
  readonly #violations: string[] = []
  /** Numbers of the first call and the first request after those of the history. */
  #firstFollowUpCall = Infinity
  #firstFollowUpRequest = Infinity

  // oxlint-disable-next-line max-params
  constructor(world: World, server: ModelServer, network: Network, program: Program, history: History) {
    this.#world = world
    this.#server = server
    this.#network = network
    this.#program = program
    this.#history = history
  }

  async run(): Promise<readonly string[]> {
    this.#schedule()
    this.#world.onPause = (ms) => this.#checkPause(ms)
    const program = this.#program
    program.start()
    if (!(await this.#world.runUntil(() => program.isSettled, HORIZON_MS))) this.#reportPending()
    else {
      const { ledger } = program
      this.#violations.push(...checkRequests(this.#network, this.#history, ledger.calls))
      await this.#settle()
      await this.#followUp()
      await this.#close()
      this.#violations.push(...checkEvents(program.events))
    }
    this.#violations.push(
      ...this.#world.uncaught.map((error) => `uncaught: ${String((error as Error)?.stack ?? error)}`),
      ...checkRows(program, this.#network, this.#server.database.commits, {
        expires: (this.#history.events ?? []).some(({ kind }) => kind === 'token expires'),
        rejectsWriters: this.#history.server.isTursodb === true,
      }),
      ...checkOutcomes(program, this.#network, this.#history),
      ...checkReads(program, this.#history, this.#server.database.rows),
      ...checkTimes(program, this.#network, this.#history),
      ...checkRetries(program, this.#network, this.#history),
      ...checkErrors(program, this.#network, this.#history),
      ...program.ledger.errors.findChanges(),
    )
    return this.#violations
  }

  /**
   * Checks that no transaction waits for the write lock while nothing is in flight, and the lock is free or fewer streams are
   * open than may write at a time.
   */
  #checkPause(ms: number): void {
    if (ms < LONG_PAUSE_MS || this.#network.inFlight > 0 || this.#isFaulty) return
    // the next transaction waits until the client detects that the server has closed the stream
    if (this.#history.server.isTursodb && this.#hasLongSleeps) return
    const { database, streams } = this.#server
    // without a queue on the server, no transaction waits there
    const maxStreams = this.#history.server.isTursodb ? 1 : MAX_WRITE_TRANSACTIONS
    if (streams.size >= maxStreams && (database.holder !== null || this.#hasModes)) return
    const isFirst = (call: Call): boolean =>
      call.state === 'pending' &&
      call.operation === 'execute' &&
      call.scope.kind === 'transaction' &&
      call.scope.calls[0] === call
    const waiting = this.#program.ledger.calls.find(isFirst)
    if (waiting)
      this.#violations.push(
        `${describeCall(waiting)}: waits at ${this.#world.now} ms, although nothing blocks it`,
      )
  }

  /** Whether there may be transactions that hold a write permit, but not the lock yet. */
  get #hasModes(): boolean {
    return /"mode"|"sql":"begin"|"staysOpen"/.test(JSON.stringify(this.#history))
  }

  #schedule(): void {
    for (const { atMs, kind } of this.#history.events ?? []) {
      this.#world.after(atMs, () => {
        if (this.#network.isFaultFree) return
        if (kind === 'token expires') this.#server.token = 'another token'
        else this.#server.restart(kind === 'restart with a lower index')
      })
    }
  }

  #reportPending(): void {
    const pending = this.#program.ledger.calls.filter(({ state }) => state === 'pending')
    const limit = `${HORIZON_MS / 1_000} s`
    this.#violations.push(`not settled within ${limit}: ${pending.map(describeCall).join('; ') || 'a task'}`)
  }

  get #isFaulty(): boolean {
    const { events = [], clients } = this.#history
    return this.#network.faultCount > 0 || events.length > 0 || clients.some(({ token }) => token?.fails)
  }

  /** Waits until aborted requests have ended, and the server has closed the streams whose close request was lost. */
  async #settle(): Promise<void> {
    this.#network.isFaultFree = true
    this.#server.isFaultFree = true
    this.#server.token = null
    this.#program.isFaultFree = true
    const { database, streams } = this.#server
    const drainMs = this.#isFaulty ? LOST_CLOSE_MS : DRAIN_MS
    await this.#world.runUntil(() => false, this.#world.now + drainMs)
    if (this.#isFaulty)
      await this.#world.runUntil(() => streams.size === 0, this.#world.now + FAULTY_DRAIN_MS)
    if (this.#isFaulty || JSON.stringify(this.#history).includes('"staysOpen"')) return
    const isQuick = getSlowness(this.#program, this.#history) < QUICK_MS
    if (isQuick && database.takeovers > 0)
      this.#violations.push('a writer waited for the lock until its timeout')
    // a BEGIN that waited longer than an aborted call may take to finish still gets the lock
    if (database.holder && (isQuick || !this.#mayLeaveRequests))
      this.#violations.push('the write lock is still held at the end')
    if (this.#mayLeaveRequests) return
    if (streams.size > 0)
      this.#violations.push(`${streams.size} streams are still open on the server at the end`)
    if (
      this.#server.expiries > 0 &&
      !this.#hasLongSleeps &&
      !this.#program.ledger.calls.some(({ mistake }) => mistake)
    )
      this.#violations.push(`${this.#server.expiries} streams were left for the server to close`)
  }

  /** Checks that the client holds no resources, and works like a new one. */
  async #followUp(): Promise<void> {
    this.#firstFollowUpCall = this.#program.ledger.calls.length
    this.#firstFollowUpRequest = this.#network.requests.length
    for (const client of this.#history.clients.keys()) {
      if (this.#program.clientScopes[client]?.calls.some(({ operation }) => operation === 'close')) continue
      const { length: callCount } = this.#program.ledger.calls
      const { length: scopeCount } = this.#program.ledger.scopes
      const startedAt = this.#world.now
      await this.#runSteps(client, FOLLOW_UP_STEPS)
      // the callback of a transaction that took too long may still use its handle
      const calls = this.#program.ledger.calls
        .slice(callCount)
        .filter(({ scope }) => scope.kind === 'client' || scope.id >= scopeCount)
      const { ignoresConditions } = this.#history.server
      const isRefused = ({ error }: Call): boolean =>
        ignoresConditions === true && error instanceof ProtocolError
      for (const call of calls.filter(({ state, inner }) => state !== 'ok' && inner.length === 0))
        if (!isRefused(call))
          this.#violations.push(`afterwards ${describeCall(call)} ${call.state}: ${String(call.error)}`)
      const tookMs = this.#world.now - startedAt
      const isDelayed = this.#mayLeaveRequests && getSlowness(this.#program, this.#history) >= QUICK_MS
      if (tookMs > FOLLOW_UP_MS && !isDelayed)
        this.#violations.push(`client ${client} then took ${tookMs} ms for three calls`)
    }
  }

  async #runSteps(client: number, steps: readonly Step[]): Promise<void> {
    void this.#program.runSteps(client, steps)
    if (!(await this.#world.runUntil(() => this.#program.isSettled, this.#world.now + HORIZON_MS)))
      this.#reportPending()
  }

  async #close(): Promise<void> {
    for (const client of this.#history.clients.keys()) {
      const startedAt = this.#world.now
      await this.#runSteps(client, [{ do: 'close' }])
      const tookMs = this.#world.now - startedAt
      if (tookMs > 3_000) this.#violations.push(`close() of client ${client} took ${tookMs} ms`)
    }
    await this.#world.runUntil(() => this.#world.clientTimers === 0, this.#world.now + DRAIN_MS)
    if (this.#world.clientTimers > 0)
      this.#violations.push(`${this.#world.clientTimers} timers are still set at the end`)
    const { signals } = this.#program
    const observedSignals = signals.filter(
      ({ listenerCount, controller }) => listenerCount > 0 && !controller.signal.aborted,
    )
    if (observedSignals.length > 0)
      this.#violations.push(`${observedSignals.length} signals still have listeners at the end`)
  }

  /** Whether reads may be aborted: the server then has to close their streams. */
  get #mayLeaveRequests(): boolean {
    const text = JSON.stringify(this.#history)
    const leavesRows = text.includes('"do":"rows"') && /"wait"|"together"/.test(text)
    return leavesRows || /"(abortMs|abortTicks|timeoutMs|requestTimeoutMs)"|"do":"close"/.test(text)
  }

  get #hasLongSleeps(): boolean {
    return JSON.stringify(this.#history).match(/"ms":\d{4}/) !== null
  }

  report(): string {
    const lines: [number, string][] = []
    for (const call of this.#program.ledger.calls) {
      if (call.id >= this.#firstFollowUpCall) break
      lines.push([
        call.at,
        `${describeCall(call)} ${call.tags.filter((tag) => tag !== null).join()} on scope ${call.scope.id}`,
      ])
      lines.push([call.settledAt, `${describeCall(call)} ${call.state} ${describeError(call)}`])
    }
    for (const [index, request] of this.#network.requests.entries())
      if (index < this.#firstFollowUpRequest)
        lines.push([
          request.at,
          `  request ${index} ${request.path} ${request.fault?.kind ?? ''} ${request.body}`,
        ])
    for (const { at, tags } of this.#server.database.commits) lines.push([at, `    committed ${tags.join()}`])
    return lines
      .toSorted(([a], [b]) => a - b)
      .map(([at, text]) => `${at} ms: ${text}`)
      .join('\n')
  }
}

const describeError = (call: Call): string =>
  call.state === 'failed'
    ? `${String(call.error)} (${String((call.error as { outcome?: string })?.outcome)})`
    : ''

const FOLLOW_UP_STEPS: readonly Step[] = [
  { do: 'execute', sql: 'insert', timeoutMs: 30_000 },
  { do: 'transaction', steps: [{ do: 'execute', sql: 'insert' }] },
  { do: 'execute', sql: 'select', timeoutMs: 30_000 },
]
