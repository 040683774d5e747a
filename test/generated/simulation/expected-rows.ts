import { SqlError } from '@batonsql/core'
import { wholeOf } from './history.ts'
import { type Call, outcomeOf, type Scope } from './ledger.ts'

/** Rows that have to become durable together. */
export interface Group {
  readonly name: string
  /** The rows, in the order of the calls on each handle. */
  readonly tags: readonly number[]
  /** Rows that may be missing, because they were not acknowledged. */
  readonly optional: ReadonlySet<number>
  readonly must: 'exist' | 'not exist' | 'exist or not'
}

interface Part {
  tags: number[]
  optional: Set<number>
}

const isTag = (tag: number | null): tag is number => tag !== null

/** The rows written by a call in a transaction, or by a part of a batch. */
function partOf(call: Call): Part {
  const all = call.tags.filter(isTag)
  if (call.state === 'ok') return { tags: all, optional: new Set() }
  if (call.error instanceof SqlError && call.what !== 'execute' && call.what !== 'rows') {
    const at = call.error.statementIndex ?? 0
    const failed = call.sql[at] === 'or fail' ? call.tags[at] : null
    const tags = [...call.tags.slice(0, at), failed ?? null].filter(isTag)
    return { tags, optional: new Set([failed ?? null].filter(isTag)) }
  }
  return outcomeOf(call) === 'unknown'
    ? { tags: all, optional: new Set(all) }
    : { tags: [], optional: new Set() }
}

/** The progress of a transaction, of a stream or a callback. */
class Open {
  #part: Part = { tags: [], optional: new Set() }
  readonly #points: { name: string; length: number }[] = []

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
    this.#points.push({ name, length: this.#part.tags.length })
  }

  undo(name: string): void {
    const at = this.#points.findLastIndex((point) => point.name === name)
    const point = this.#points[at]
    if (!point) return
    this.#part.tags.length = point.length
    this.#points.length = at + 1
  }

  forget(name: string): void {
    const at = this.#points.findLastIndex((point) => point.name === name)
    if (at >= 0) this.#points.length = at
  }

  /** Handles a statement if it controls a savepoint. @returns whether it does */
  control(call: Call): boolean {
    const [sql] = call.sql
    if (call.what === 'execute' && call.state === 'ok') {
      if (sql === 'savepoint p') this.mark('p')
      else if (sql === 'rollback to p') this.undo('p')
      else if (sql === 'release p') this.forget('p')
    }
    if (call.what === 'mark') this.mark(call.name)
    else if (call.what === 'undo') this.undo(call.name)
    else if (call.what === 'forget') this.forget(call.name)
    return /^(mark|undo|forget)$/.test(call.what) || sql?.endsWith(' p') === true
  }
}

/** The rows written by the callback of a transaction or a savepoint that succeeds. */
function liveIn(scope: Scope, open = new Open()): Open {
  for (const call of scope.calls) {
    if (open.control(call)) continue
    if (call.what === 'savepoint') {
      const [inner] = call.inner
      if (inner && call.state === 'ok' && !inner.isRolledBack) liveIn(inner, open)
    } else if (call.what === 'execute' || call.what === 'batch' || call.what === 'rows')
      open.add(partOf(call))
  }
  return open
}

/** Derives from the ledger which rows have to exist. */
export function groupsOf(scopes: readonly Scope[]): Group[] {
  return scopes.flatMap((scope) => {
    if (scope.kind === 'client') return scope.calls.flatMap(groupsOfCall)
    return scope.kind === 'stream' ? groupsOfStream(scope) : []
  })
}

function groupsOfCall(call: Call): Group[] {
  if (call.what === 'transaction') return call.inner.map((scope, at) => groupOfTry(call, scope, at))
  const name = `call ${call.id} (${call.what})`
  const { tags, optional } = partOf(call)
  if (call.what === 'chain' || call.what === 'script') return chainGroups(call, name)
  if (call.what === 'batch' || call.what === 'execute' || call.what === 'rows') {
    const all = call.tags.filter(isTag)
    if (call.state === 'ok') return [{ name, tags, optional, must: 'exist' }]
    const isKept = call.sql[0] === 'or fail' && call.what !== 'batch'
    const must = outcomeOf(call) === 'unknown' || isKept ? 'exist or not' : 'not exist'
    return [{ name, tags: all, optional: new Set(isKept ? all : []), must }]
  }
  return []
}

/**
 * Statements that are committed one by one, up to the first that fails; in a script, those between BEGIN and COMMIT
 * together.
 */
function chainGroups(call: Call, name: string): Group[] {
  const { tags, sql, plan, state } = call
  const whole = wholeOf(plan)
  const [from, to] = whole ?? [sql.length, sql.length]
  // BEGIN and COMMIT are statements of the script, too
  const placeOf = (index: number): number =>
    index + (whole && index >= from ? 1 : 0) + (whole && index >= to ? 1 : 0)
  const commit = placeOf(to) - 1
  const at = failedAt(call, [0, placeOf(from) - 1, commit + 1])
  const isUnknown = outcomeOf(call) === 'unknown'
  const mustBe = (isBefore: (failed: number) => boolean, mayBeKept: boolean): Group['must'] => {
    if (state === 'ok') return 'exist'
    // the outcome is that of the whole call
    if (state === 'failed' && !isUnknown) return 'not exist'
    if (at !== null) return isBefore(at) ? 'exist' : mayBeKept ? 'exist or not' : 'not exist'
    return state === 'failed' ? 'exist or not' : 'not exist'
  }
  const groups = tags.flatMap((tag, index): Group[] => {
    if (tag === null || (index >= from && index < to)) return []
    const must = mustBe((failed) => placeOf(index) < failed, sql[index] === 'or fail')
    return [{ name: `${name} statement ${index}`, tags: [tag], optional: new Set(), must }]
  })
  const together = tags.slice(from, to).filter(isTag)
  if (together.length === 0) return groups
  const must = mustBe((failed) => commit < failed, false)
  return [...groups, { name: `${name} from BEGIN to COMMIT`, tags: together, optional: new Set(), must }]
}

/**
 * The index of the statement that failed, if it is known; if it is not valid SQL, the index where its part begins, because
 * the server runs none of the part in that case.
 */
function failedAt({ error }: Call, parts: readonly number[]): number | null {
  if (!(error instanceof SqlError)) return null
  const { code, results, statementIndex } = error
  // the results show that the server ran the statements one by one
  if (!code.startsWith('SQL_') || results.length > 0) return statementIndex
  return statementIndex === null ? null : (parts.findLast((part) => part <= statementIndex) ?? 0)
}

function groupOfTry(call: Call, scope: Scope, at: number): Group {
  const { tags, optional } = liveIn(scope)
  const isLast = at === call.inner.length - 1
  const isUnknown = !(scope.hasThrown && scope.thrown === call.error) && outcomeOf(call) === 'unknown'
  const must =
    !isLast || scope.isRolledBack
      ? 'not exist'
      : call.state === 'ok'
        ? 'exist'
        : isUnknown
          ? 'exist or not'
          : 'not exist'
  const all = must === 'not exist' ? allTags(scope) : tags
  return { name: `call ${call.id} (transaction), try ${at}`, tags: all, optional, must }
}

/** All calls that were made on a handle and inside it. */
const allTags = (scope: Scope): number[] =>
  scope.calls.flatMap((call) => [...call.tags.filter(isTag), ...call.inner.flatMap(allTags)])

/** Whether a transaction continues after a COMMIT that failed: it was never sent, or was rejected. */
function continues(scope: Scope, commit: Call): boolean {
  const later = scope.calls.slice(scope.calls.indexOf(commit) + 1)
  const end = later.findIndex(
    ({ what, state }) => (what === 'begin' && state === 'ok') || what === 'close stream',
  )
  const isStatement = ({ what, sql }: Call): boolean =>
    !/^(rollback|mark|undo|forget)$/.test(what) && !(what === 'execute' && sql[0] === 'rollback')
  return later.slice(0, end < 0 ? undefined : end).some((call) => call.state === 'ok' && isStatement(call))
}

/** The rows written by calls on a stream, whose transactions begin and end with method calls or with statements. */
function groupsOfStream(scope: Scope): Group[] {
  const groups: Group[] = []
  let open: Open | null = null
  const end = (call: Call | null, must: Group['must']): void => {
    const name = `stream ${scope.id}, transaction up to call ${call?.id ?? 'the end'}`
    if (open) groups.push({ name, tags: open.tags, optional: open.optional, must })
    open = null
  }
  for (const call of scope.calls) {
    const [sql] = call.sql
    const verb = call.what === 'execute' && /^(begin|commit|rollback)$/.test(sql ?? '') ? sql : call.what
    if (verb === 'begin') {
      if (call.state === 'ok') open ??= new Open()
    } else if (verb === 'commit') {
      const isRejected = call.error instanceof SqlError || call.error instanceof TypeError
      if (call.state === 'ok') end(call, 'exist')
      else if (continues(scope, call)) continue
      else if (!isRejected && outcomeOf(call) === 'unknown') end(call, 'exist or not')
      else if (!isRejected && call.error instanceof Error && call.error.name === 'StreamError')
        end(call, 'not exist')
    } else if (verb === 'rollback' || verb === 'close stream') end(call, 'not exist')
    else if (open) {
      const transaction: Open = open
      if (!transaction.control(call)) transaction.add(partOf(call))
    } else groups.push(...groupsOfCall(call))
  }
  end(null, 'not exist')
  return groups
}
