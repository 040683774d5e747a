import {
  DisconnectedError,
  type ModelConnection,
  SqlFailure,
  type StatementResult,
} from './model-database.ts'
import { type Command, parse } from './model-sql.ts'
import type { World } from './world.ts'

export interface ServerRequest {
  readonly path: string
  readonly token: string | null
  readonly body: string
  /** Whether another connection holds the lock, and the request may not wait for it. */
  readonly isBusy?: boolean
  /** How long each of its statements takes, in ms. */
  readonly statementMs?: number
}

export interface WireStatement {
  readonly sql?: string | null
  readonly args?: readonly { readonly type: string; readonly value?: string }[]
  readonly replication_index?: string | number | null
}

export interface WireStep {
  readonly stmt: WireStatement
  readonly condition?: WireCondition | null
}

type WireCondition =
  | { readonly type: 'ok' | 'error'; readonly step: number }
  | { readonly type: 'not'; readonly cond: WireCondition }
  | { readonly type: 'and' | 'or'; readonly conds: readonly WireCondition[] }
  | { readonly type: 'is_autocommit' }

/** A request that is rejected as a whole, and whose stream is then closed. */
export class ApiError extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export type StepResult = StatementResult | SqlFailure | null

/** The operations of one request on a connection: its statements fail together if their transaction was ended. */
export class ModelProgram {
  readonly #connection: ModelConnection
  readonly #request: ServerRequest
  readonly #world: World
  #timedOut = false

  constructor(connection: ModelConnection, request: ServerRequest, world: World) {
    this.#connection = connection
    this.#request = request
    this.#world = world
  }

  /** Whether its transaction lost the lock to another writer; the rest of the request then gets the error. */
  get #isTimedOut(): boolean {
    this.#timedOut ||= this.#connection.isTimedOut
    this.#connection.isTimedOut = false
    return this.#timedOut
  }

  async #run(command: Command): Promise<StatementResult> {
    if (this.#isTimedOut) throw new SqlFailure('TRANSACTION_TIMEOUT', 'Transaction timed out')
    const { statementMs = 0, isBusy = false } = this.#request
    this.#connection.isBusy = true
    try {
      if (statementMs > 0) await this.#world.sleep(statementMs)
      if (this.#connection.isClosed) throw new DisconnectedError('the stream was dropped')
      return await this.#connection.run(command, isBusy)
    } finally {
      this.#connection.onFinished()
    }
  }

  async runSingle(statement: WireStatement): Promise<StatementResult> {
    return await this.#run(toCommand(statement))
  }

  async sequence(sql: string): Promise<void> {
    for (const statement of sql.split(';').filter((text) => text.trim() !== ''))
      await this.#run(toCommand({ sql: statement.trim() }))
  }

  /** Runs one step. A rejection is also a result. */
  async step(command: Command): Promise<StatementResult | SqlFailure> {
    try {
      return await this.#run(command)
    } catch (error) {
      if (error instanceof SqlFailure) return error
      throw error
    }
  }

  /** @throws SqlFailure if a step is not valid SQL; then none has run */
  async batch(steps: readonly WireStep[], isV3: boolean): Promise<StepResult[]> {
    const commands = toCommands(steps, isV3)
    const results: StepResult[] = []
    let largeResults = 0
    for (const [index, { condition }] of steps.entries()) {
      const command = commands[index] as Command
      const shouldRun = this.holds(condition, results) || this.#isTimedOut
      results.push(shouldRun ? await this.step(command) : null)
      if (shouldRun && command.kind === 'large' && (largeResults += 1) > 1)
        throw new SqlFailure('RESPONSE_TOO_LARGE', 'Response is too large')
    }
    return results
  }

  holds(condition: WireCondition | null | undefined, results: readonly StepResult[]): boolean {
    if (!condition) return true
    switch (condition.type) {
      case 'ok':
      case 'error': {
        const result = results[condition.step]
        const isOk = result != null && !(result instanceof SqlFailure)
        return isOk === (condition.type === 'ok')
      }
      case 'not':
        return !this.holds(condition.cond, results)
      case 'and':
        return condition.conds.every((cond) => this.holds(cond, results))
      case 'or':
        return condition.conds.some((cond) => this.holds(cond, results))
      default:
        return this.#connection.isAutocommit
    }
  }
}

/** Parses the steps of a batch. @throws ApiError for an impossible condition; SqlFailure for invalid SQL */
export function toCommands(steps: readonly WireStep[], isV3: boolean): Command[] {
  return steps.map(({ stmt, condition }, index) => {
    const command = toCommand(stmt)
    if (condition) checkCondition(condition, index, isV3)
    return command
  })
}

function checkCondition(condition: WireCondition, stepIndex: number, isV3: boolean): void {
  if ('step' in condition && condition.step >= stepIndex)
    throw new ApiError(400, 'Invalid reference to step in a batch condition')
  if ('cond' in condition) checkCondition(condition.cond, stepIndex, isV3)
  if ('conds' in condition) for (const cond of condition.conds) checkCondition(cond, stepIndex, isV3)
  if (condition.type === 'is_autocommit' && !isV3)
    throw new ApiError(
      400,
      'BatchCond of type `is_autocommit` is only supported in protocol version hrana3 and higher',
    )
}

/** @throws SqlFailure for invalid SQL */
function toCommand({ sql, args = [] }: WireStatement): Command {
  const values = args.map(({ type, value }) => (type === 'null' ? null : Number(value)))
  const command = parse(sql ?? '', values)
  if (command.kind === 'unparsable') throw new SqlFailure('SQL_PARSE_ERROR', command.message)
  return command
}
