/** One transaction of a history in which values, each used once, are appended to lists, and whole lists are read. */
export interface HistoryTransaction {
  readonly id: number
  /** The client of the transaction; transactions of one client run one after another. */
  readonly session: number
  readonly start: number
  /** When its caller was notified of its end. */
  readonly end: number
  readonly outcome: 'committed' | 'not_applied' | 'unknown'
  /** The values that it appended and kept, in order. */
  readonly appends: readonly (readonly [key: number, value: number])[]
  /** The values that were rolled back or rejected, which no other transaction may see. */
  readonly undone: readonly number[]
  /** Lists that it read, with its own values that should be at the end of each. */
  readonly reads: readonly {
    readonly key: number
    readonly values: readonly number[]
    readonly own: readonly number[]
  }[]
}

export interface HistoryReport {
  readonly transactions: number
  readonly committed: number
  readonly edges: Readonly<Record<'ww' | 'wr' | 'rw' | 'order', number>>
  /** Sets of transactions that depend on each other in a cycle. */
  readonly cycles: number
  /** Violations. */
  readonly mistakes: readonly string[]
}

type EdgeKind = keyof HistoryReport['edges']

/**
 * Checks that a history is serializable, as Elle does for lists: the final lists give the
 * order of the writes, and the reads give the other dependencies. There must be no cycle of dependencies, no read of a value
 * that was rolled back, no partly applied transaction, and no missing acknowledged append.
 * @param final the final lists
 * @param order further constraints: `real-time`, a transaction that ended before another began comes before it; `session`,
 * only for the same client, as when each client reads from its own replica
 */
export function checkHistory(
  history: readonly HistoryTransaction[],
  final: ReadonlyMap<number, readonly number[]>,
  order: 'real-time' | 'session',
): HistoryReport {
  const mistakes: string[] = []
  const writerOf = new Map<number, HistoryTransaction>()
  const undone = new Set<number>()
  for (const each of history) {
    for (const [, value] of each.appends) writerOf.set(value, each)
    for (const value of each.undone) undone.add(value)
  }
  const present = new Set([...final.values()].flat())
  const applied = checkAppends(history, present, mistakes)
  checkLists(final, writerOf, undone, mistakes)
  const graph = new Graph()
  for (const values of final.values()) addWrites(graph, values, writerOf)
  for (const each of history) {
    for (const read of each.reads) {
      const others = othersOf(each, read, undone, mistakes)
      const list = final.get(read.key) ?? []
      if (others.some((value, at) => list[at] !== value))
        mistakes.push(
          `${each.id}: read [${others.join()}] of list ${read.key}, which became [${list.join()}]`,
        )
      else if (applied.has(each) || each.appends.length === 0)
        addRead(graph, each, list, others.length, writerOf)
      checkWhole(each, others, read.key, writerOf, mistakes)
    }
  }
  addOrder(
    graph,
    history.filter((each) => applied.has(each) || each.appends.length === 0),
    order,
  )
  const cycles = graph.cycles()
  for (const cycle of cycles.slice(0, 5)) mistakes.push(`a cycle: ${cycle.join(' → ')}`)
  return {
    transactions: history.length,
    committed: history.filter(({ outcome }) => outcome === 'committed').length,
    edges: graph.counts,
    cycles: cycles.length,
    mistakes,
  }
}

/**
 * Checks that each transaction was applied completely or not at all, as its caller was told.
 * @returns those that were applied
 */
function checkAppends(
  history: readonly HistoryTransaction[],
  present: ReadonlySet<number>,
  mistakes: string[],
): Set<HistoryTransaction> {
  const there = new Set<HistoryTransaction>()
  for (const each of history) {
    const found = each.appends.filter(([, value]) => present.has(value)).length
    const { id, outcome, appends } = each
    if (found > 0 && found < appends.length)
      mistakes.push(`${id}: torn, ${found} of ${appends.length} appends`)
    if (outcome === 'committed' && found < appends.length) mistakes.push(`${id}: a lost append`)
    if (outcome === 'not_applied' && found > 0) mistakes.push(`${id}: not applied, and there`)
    if (outcome === 'committed' || found > 0) there.add(each)
  }
  return there
}

function checkLists(
  final: ReadonlyMap<number, readonly number[]>,
  writerOf: ReadonlyMap<number, HistoryTransaction>,
  undone: ReadonlySet<number>,
  mistakes: string[],
): void {
  for (const [key, values] of final) {
    if (new Set(values).size < values.length) mistakes.push(`list ${key}: a value that exists twice`)
    for (const value of values)
      if (undone.has(value) || !writerOf.has(value)) mistakes.push(`list ${key}: ${value} was rolled back`)
  }
}

/** The values of other transactions that a read saw; those of its own transaction must be at the end of the list. */
function othersOf(
  { id, appends }: HistoryTransaction,
  { key, values, own }: HistoryTransaction['reads'][number],
  undone: ReadonlySet<number>,
  mistakes: string[],
): readonly number[] {
  const others = values.slice(0, values.length - own.length)
  if (values.slice(others.length).join() !== own.join())
    mistakes.push(`${id}: [${own.join()}] of its own is not the end of [${values.join()}] in list ${key}`)
  const mine = new Set(appends.map(([, value]) => value))
  for (const value of others)
    if (undone.has(value) && !mine.has(value)) mistakes.push(`${id}: read ${value}, which was rolled back`)
  return others
}

/** No reader sees part of a transaction: if it sees the last one in a list, it sees all of its appends to that list. */
function checkWhole(
  { id }: HistoryTransaction,
  others: readonly number[],
  key: number,
  writerOf: ReadonlyMap<number, HistoryTransaction>,
  mistakes: string[],
): void {
  const last = others.at(-1)
  const writer = last === undefined ? undefined : writerOf.get(last)
  if (!writer || writer.id === id) return
  const all = writer.appends.filter(([each]) => each === key).map(([, value]) => value)
  if (all.some((value) => !others.includes(value)))
    mistakes.push(`${id}: saw transaction ${writer.id} by half in list ${key}`)
}

function addWrites(
  graph: Graph,
  values: readonly number[],
  writerOf: ReadonlyMap<number, HistoryTransaction>,
): void {
  for (const [at, value] of values.entries()) {
    const next = writerOf.get(values[at + 1] ?? Number.NaN)
    const writer = writerOf.get(value)
    if (writer && next) graph.add('ww', writer.id, next.id)
  }
}

function addRead(
  graph: Graph,
  reader: HistoryTransaction,
  list: readonly number[],
  length: number,
  writerOf: ReadonlyMap<number, HistoryTransaction>,
): void {
  const writer = writerOf.get(list[length - 1] ?? Number.NaN)
  if (writer) graph.add('wr', writer.id, reader.id)
  const next = list.slice(length).find((value) => writerOf.get(value)?.id !== reader.id)
  const overwriter = next === undefined ? undefined : writerOf.get(next)
  if (overwriter) graph.add('rw', reader.id, overwriter.id)
}

/** Orders transactions that ended before another began; only the last ones that ended need an edge. */
function addOrder(
  graph: Graph,
  history: readonly HistoryTransaction[],
  order: 'real-time' | 'session',
): void {
  const lines = order === 'real-time' ? [history] : Map.groupBy(history, ({ session }) => session).values()
  for (const line of lines) {
    const known = line.filter(({ outcome }) => outcome === 'committed')
    const times = [
      ...line.map((each) => ({ at: each.start, isEnd: false, each })),
      ...known.map((each) => ({ at: each.end, isEnd: true, each })),
    ].toSorted((a, b) => a.at - b.at || Number(a.isEnd) - Number(b.isEnd))
    let frontier: HistoryTransaction[] = []
    for (const { isEnd, each } of times) {
      if (isEnd) frontier = [...frontier.filter(({ end }) => end >= each.start), each]
      else for (const before of frontier) graph.add('order', before.id, each.id)
    }
  }
}

/** Transactions, and the order required between them. */
class Graph {
  readonly counts: Record<EdgeKind, number> = { ww: 0, wr: 0, rw: 0, order: 0 }
  readonly #after = new Map<number, Set<number>>()

  add(kind: EdgeKind, from: number, to: number): void {
    if (from === to) return
    this.counts[kind] += 1
    const after = this.#after.get(from) ?? new Set()
    this.#after.set(from, after.add(to))
  }

  /** Strongly connected components (Tarjan's algorithm, without recursion). */
  cycles(): number[][] {
    const index = new Map<number, number>()
    const low = new Map<number, number>()
    const stack: number[] = []
    const isOnStack = new Set<number>()
    const found: number[][] = []
    const open = (node: number): { node: number; rest: number[] } => {
      index.set(node, index.size)
      low.set(node, index.get(node) as number)
      stack.push(node)
      isOnStack.add(node)
      return { node, rest: [...(this.#after.get(node) ?? [])] }
    }
    const lower = (node: number, to: number): unknown => low.set(node, Math.min(low.get(node) as number, to))
    for (const root of this.#after.keys()) {
      const work = index.has(root) ? [] : [open(root)]
      for (let top = work.at(-1); top; top = work.at(-1)) {
        const { node } = top
        const next = top.rest.pop()
        if (next !== undefined) {
          if (!index.has(next)) work.push(open(next))
          else if (isOnStack.has(next)) lower(node, index.get(next) as number)
          continue
        }
        work.pop()
        const parent = work.at(-1)
        if (parent) lower(parent.node, low.get(node) as number)
        if (low.get(node) !== index.get(node)) continue
        const component = stack.splice(stack.indexOf(node))
        for (const each of component) isOnStack.delete(each)
        if (component.length > 1) found.push(component)
      }
    }
    return found
  }
}
