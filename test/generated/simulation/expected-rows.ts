import { SqlError } from '@batonsql/core'
import { getTransactionRange } from './history.ts'
import { type Call, getOutcome, type Scope } from './ledger.ts'

/** Rows that have to become durable together. */
export interface Group {
  readonly name: string
  /** The rows, in the order of the calls on each handle. */
  readonly tags: readonly number[]
  /** Rows that may be missing, because they were not acknowledged. */
  readonly optional: ReadonlySet<number>
  readonly must: 'exist' | 'not exist' | 'exist or not'
  /** Whether a second copy of its request would fail, because it compares the state from before the first. */
  readonly rejectsCopies?: boolean
}

interface Part {
  tags: number[]
  optional: Set<number>
}

const isTag = (tag: number | null): tag is number => tag !== null

/** Returns the rows written by a call in a transaction; for a batch that failed, those up to the failed statement. */
function getPart(call: Call): Part {
  const callTags = call.tags.filter(isTag)
  if (call.state === 'ok') return { tags: callTags, optional: new Set() }
  if (call.error instanceof SqlError && call.operation !== 'execute' && call.operation !== 'rows') {
    const statementIndex = call.error.statementIndex ?? 0
    const failed = call.sql[statementIndex] === 'or fail' ? call.tags[statementIndex] : null
    const tags = [...call.tags.slice(0, statementIndex), failed ?? null].filter(isTag)
    return { tags, optional: new Set([failed ?? null].filter(isTag)) }
  }
  return getOutcome(call) === 'unknown'
    ? { tags: callTags, optional: new Set(callTags) }
    : { tags: [], optional: new Set() }
}

/** The rows and savepoints so far of a transaction on a stream or in a callback. */
class OpenTransaction {
  #part: Part = { tags: [], optional: new Set() }
  readonly #savepoints: { name: string; length: number }[] = []

  get tags(): readonly number[] {
    return this.#part.tags
  }

  get optional(): ReadonlySet<number> {
    return this.#part.optional
  }

  add({ tags, optional }: Part): void {
    this.#part.tags.push(...tags)
    for (const tag of optional) this.#part.optional.add(tag)
  }

  mark(name: string): void {
    this.#savepoints.push({ name, length: this.#part.tags.length })
  }

  undo(name: string): void {
    const index = this.#savepoints.findLastIndex((point) => point.name === name)
    const point = this.#savepoints[index]
    if (!point) return
    this.#part.tags.length = point.length
    this.#savepoints.length = index + 1
  }

  forget(name: string): void {
    const index = this.#savepoints.findLastIndex((point) => point.name === name)
    if (index >= 0) this.#savepoints.length = index
  }

  /** Handles a statement if it controls a savepoint. @returns whether it does */
  control(call: Call): boolean {
    const [sql] = call.sql
    if (call.operation === 'execute' && call.state === 'ok') {
      if (sql === 'savepoint p') this.mark('p')
      else if (sql === 'rollback to p') this.undo('p')
      else if (sql === 'release p') this.forget('p')
    }
    if (call.operation === 'mark') this.mark(call.name)
    else if (call.operation === 'undo') this.undo(call.name)
    else if (call.operation === 'forget') this.forget(call.name)
    return /^(mark|undo|forget)$/.test(call.operation) || sql?.endsWith(' p') === true
  }
}

/** Collects the rows written by the callback of a transaction or a savepoint that succeeds. */
function collectLiveRows(scope: Scope, openTransaction = new OpenTransaction()): OpenTransaction {
  for (const call of scope.calls) {
    if (openTransaction.control(call)) continue
    if (call.operation === 'savepoint') {
      const [inner] = call.inner
      if (inner && call.state === 'ok' && !inner.isRolledBack) collectLiveRows(inner, openTransaction)
    } else if (call.operation === 'execute' || call.operation === 'batch' || call.operation === 'rows')
      openTransaction.add(getPart(call))
  }
  return openTransaction
}

/** Derives from the ledger which rows have to exist. */
export function getGroups(scopes: readonly Scope[]): Group[] {
  return scopes.flatMap((scope) => {
    if (scope.kind === 'client') return scope.calls.flatMap(getCallGroups)
    return scope.kind === 'stream' ? getStreamGroups(scope) : []
  })
}

function getCallGroups(call: Call): Group[] {
  if (call.operation === 'transaction')
    return call.inner.map((scope, index) => getAttemptGroup(call, scope, index))
  const name = `call ${call.id} (${call.operation})`
  const { tags, optional } = getPart(call)
  if (call.operation === 'chain' || call.operation === 'script') return getChainGroups(call, name)
  if (/^(batch|optimistic|execute|rows)$/.test(call.operation)) {
    const callTags = call.tags.filter(isTag)
    if (call.state === 'ok') return [{ name, tags, optional, must: 'exist' }]
    const mayExist = call.sql[0] === 'or fail' && /^(execute|rows)$/.test(call.operation)
    const must = getOutcome(call) === 'unknown' || mayExist ? 'exist or not' : 'not exist'
    const rejectsCopies = call.operation === 'optimistic'
    return [{ name, tags: callTags, optional: new Set(mayExist ? callTags : []), must, rejectsCopies }]
  }
  return []
}

/**
 * Returns one group per statement that is committed on its own, up to the first that fails; in a script, one group for those
 * between BEGIN and COMMIT.
 */
function getChainGroups(call: Call, name: string): Group[] {
  const { tags, sql, plan, state } = call
  const range = getTransactionRange(plan)
  const [from, to] = range ?? [sql.length, sql.length]
  // BEGIN and COMMIT are statements of the script, too
  const getPosition = (index: number): number =>
    index + (range && index >= from ? 1 : 0) + (range && index >= to ? 1 : 0)
  const commit = getPosition(to) - 1
  const failedIndex = getFailedIndex(call, [0, getPosition(from) - 1, commit + 1])
  const isUnknown = getOutcome(call) === 'unknown'
  const mustBe = (isBefore: (failed: number) => boolean, mayExist: boolean): Group['must'] => {
    if (state === 'ok') return 'exist'
    // the outcome concerns the whole call
    if (state === 'failed' && !isUnknown) return 'not exist'
    if (failedIndex !== null) return isBefore(failedIndex) ? 'exist' : mayExist ? 'exist or not' : 'not exist'
    return state === 'failed' ? 'exist or not' : 'not exist'
  }
  const groups = tags.flatMap((tag, index): Group[] => {
    if (tag === null || (index >= from && index < to)) return []
    const must = mustBe((failed) => getPosition(index) < failed, sql[index] === 'or fail')
    return [{ name: `${name} statement ${index}`, tags: [tag], optional: new Set(), must }]
  })
  const transactionTags = tags.slice(from, to).filter(isTag)
  if (transactionTags.length === 0) return groups
  const must = mustBe((failed) => commit < failed, false)
  return [
    ...groups,
    { name: `${name} from BEGIN to COMMIT`, tags: transactionTags, optional: new Set(), must },
  ]
}

/**
 * Returns the index of the statement that failed, or null. If it is not valid SQL, returns the index where its part begins,
 * because the server then runs none of the part.
 */
function getFailedIndex({ error }: Call, parts: readonly number[]): number | null {
  if (!(error instanceof SqlError)) return null
  const { code, results, statementIndex } = error
  // the results show that the server ran the statements one by one
  if (!code.startsWith('SQL_') || results.length > 0) return statementIndex
  return statementIndex === null ? null : (parts.findLast((part) => part <= statementIndex) ?? 0)
}

function getAttemptGroup(call: Call, scope: Scope, attempt: number): Group {
  const { tags, optional } = collectLiveRows(scope)
  const isLast = attempt === call.inner.length - 1
  const isUnknown = !(scope.hasThrown && scope.thrown === call.error) && getOutcome(call) === 'unknown'
  const must =
    !isLast || scope.isRolledBack
      ? 'not exist'
      : call.state === 'ok'
        ? 'exist'
        : isUnknown
          ? 'exist or not'
          : 'not exist'
  const groupTags = must === 'not exist' ? getAllTags(scope) : tags
  return { name: `call ${call.id} (transaction), attempt ${attempt}`, tags: groupTags, optional, must }
}

/** Returns the rows of all calls on a handle and inside it. */
const getAllTags = (scope: Scope): number[] =>
  scope.calls.flatMap((call) => [...call.tags.filter(isTag), ...call.inner.flatMap(getAllTags)])

/** Returns whether a transaction continues after a COMMIT or rollback that failed because it was never sent, or was rejected. */
function isContinuedAfter(scope: Scope, failedEnd: Call): boolean {
  const laterCalls = scope.calls.slice(scope.calls.indexOf(failedEnd) + 1)
  const end = laterCalls.findIndex(
    ({ operation, state }) => (operation === 'begin' && state === 'ok') || operation === 'close stream',
  )
  const isStatement = ({ operation, sql }: Call): boolean =>
    !/^(rollback|mark|undo|forget)$/.test(operation) && !(operation === 'execute' && sql[0] === 'rollback')
  return laterCalls
    .slice(0, end < 0 ? undefined : end)
    .some((call) => call.state === 'ok' && isStatement(call))
}

/** Returns the rows written by calls on a stream, whose transactions begin and end with method calls or with statements. */
function getStreamGroups(scope: Scope): Group[] {
  const groups: Group[] = []
  let openTransaction: OpenTransaction | null = null
  const endTransaction = (call: Call | null, must: Group['must']): void => {
    const name = `stream ${scope.id}, transaction up to call ${call?.id ?? 'the end'}`
    if (openTransaction)
      groups.push({ name, tags: openTransaction.tags, optional: openTransaction.optional, must })
    openTransaction = null
  }
  for (const call of scope.calls) {
    const [sql] = call.sql
    const verb =
      call.operation === 'execute' && /^(begin|commit|rollback)$/.test(sql ?? '') ? sql : call.operation
    if (verb === 'begin') {
      if (call.state === 'ok') openTransaction ??= new OpenTransaction()
    } else if (verb === 'commit') {
      const isRejected = call.error instanceof SqlError || call.error instanceof TypeError
      if (call.state === 'ok') endTransaction(call, 'exist')
      else if (isContinuedAfter(scope, call)) continue
      else if (!isRejected && getOutcome(call) === 'unknown') endTransaction(call, 'exist or not')
      else if (!isRejected && call.error instanceof Error && call.error.name === 'StreamError')
        endTransaction(call, 'not exist')
    } else if (verb === 'rollback' || verb === 'close stream') {
      // a rollback that is aborted while it waits for a COMMIT has no effect if the COMMIT fails
      if (call.state === 'ok' || !isContinuedAfter(scope, call)) endTransaction(call, 'not exist')
    } else if (openTransaction) {
      const transaction: OpenTransaction = openTransaction
      if (!transaction.control(call)) transaction.add(getPart(call))
    } else groups.push(...getCallGroups(call))
  }
  endTransaction(null, 'not exist')
  return groups
}
