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
    readonly ownValues: readonly number[]
  }[]
}

export interface HistoryReport {
  readonly transactions: number
  readonly committed: number
  readonly edges: Readonly<Record<'ww' | 'wr' | 'rw' | 'order', number>>
  /** Number of sets of transactions that depend on each other in a cycle. */
  readonly cycles: number
  readonly violations: readonly string[]
}

type EdgeKind = keyof HistoryReport['edges']

/**
 * Checks that a history is serializable, as Elle does for lists: the final lists give the order of the writes, and the reads
 * give the other dependencies. There must be no cycle of dependencies, no read of a value that was rolled back, no partly applied
 * transaction, and no missing acknowledged append.
 * @param finalLists the final lists
 * @param order further constraints: `real-time`, a transaction that ended before another began comes before it; `session`,
 * only for the same client, as when each client reads from its own replica
 */
export function checkHistory(
  history: readonly HistoryTransaction[],
  finalLists: ReadonlyMap<number, readonly number[]>,
  order: 'real-time' | 'session',
): HistoryReport {
  const violations: string[] = []
  const writers = new Map<number, HistoryTransaction>()
  const undone = new Set<number>()
  for (const transaction of history) {
    for (const [, value] of transaction.appends) writers.set(value, transaction)
    for (const value of transaction.undone) undone.add(value)
  }
  const presentValues = new Set([...finalLists.values()].flat())
  const applied = checkAppends(history, presentValues, violations)
  checkLists(finalLists, writers, undone, violations)
  const graph = new Graph()
  for (const values of finalLists.values()) addWrites(graph, values, writers)
  for (const transaction of history) {
    for (const read of transaction.reads) {
      const otherValues = findOtherValues(transaction, read, undone, violations)
      const list = finalLists.get(read.key) ?? []
      if (otherValues.some((value, index) => list[index] !== value))
        violations.push(
          `${transaction.id}: read [${otherValues.join()}] of list ${read.key}, which became [${list.join()}]`,
        )
      else if (applied.has(transaction) || transaction.appends.length === 0)
        addRead(graph, transaction, list, otherValues.length, writers)
      checkCompleteRead(transaction, otherValues, read.key, writers, violations)
    }
  }
  addOrder(
    graph,
    history.filter((transaction) => applied.has(transaction) || transaction.appends.length === 0),
    order,
  )
  const cycles = graph.cycles()
  for (const cycle of cycles.slice(0, 5)) violations.push(`a cycle: ${cycle.join(' → ')}`)
  return {
    transactions: history.length,
    committed: history.filter(({ outcome }) => outcome === 'committed').length,
    edges: graph.counts,
    cycles: cycles.length,
    violations,
  }
}

/**
 * Checks that each transaction was applied completely or not at all, as reported to its caller.
 * @returns those that were applied
 */
function checkAppends(
  history: readonly HistoryTransaction[],
  present: ReadonlySet<number>,
  violations: string[],
): Set<HistoryTransaction> {
  const appliedTransactions = new Set<HistoryTransaction>()
  for (const transaction of history) {
    const appliedCount = transaction.appends.filter(([, value]) => present.has(value)).length
    const { id, outcome, appends } = transaction
    if (appliedCount > 0 && appliedCount < appends.length)
      violations.push(`${id}: torn, ${appliedCount} of ${appends.length} appends`)
    if (outcome === 'committed' && appliedCount < appends.length) violations.push(`${id}: a lost append`)
    if (outcome === 'not_applied' && appliedCount > 0) violations.push(`${id}: not applied, but present`)
    if (outcome === 'committed' || appliedCount > 0) appliedTransactions.add(transaction)
  }
  return appliedTransactions
}

function checkLists(
  finalLists: ReadonlyMap<number, readonly number[]>,
  writers: ReadonlyMap<number, HistoryTransaction>,
  undone: ReadonlySet<number>,
  violations: string[],
): void {
  for (const [key, values] of finalLists) {
    if (new Set(values).size < values.length) violations.push(`list ${key}: a value that exists twice`)
    for (const value of values)
      if (undone.has(value) || !writers.has(value)) violations.push(`list ${key}: ${value} was rolled back`)
  }
}

/** Returns the values of other transactions in a read; those of its own transaction must be at the end of the list. */
function findOtherValues(
  { id, appends }: HistoryTransaction,
  { key, values, ownValues }: HistoryTransaction['reads'][number],
  undone: ReadonlySet<number>,
  violations: string[],
): readonly number[] {
  const otherValues = values.slice(0, values.length - ownValues.length)
  if (values.slice(otherValues.length).join() !== ownValues.join())
    violations.push(
      `${id}: [${ownValues.join()}] that it appended is not the end of [${values.join()}] in list ${key}`,
    )
  const ownAppends = new Set(appends.map(([, value]) => value))
  for (const value of otherValues)
    if (undone.has(value) && !ownAppends.has(value))
      violations.push(`${id}: read ${value}, which was rolled back`)
  return otherValues
}

/**
 * Checks that no reader sees only part of another transaction: if the last value that it reads in a list was appended by another
 * transaction, it must also read all other values that this transaction appended to the list.
 */
function checkCompleteRead(
  { id }: HistoryTransaction,
  otherValues: readonly number[],
  key: number,
  writers: ReadonlyMap<number, HistoryTransaction>,
  violations: string[],
): void {
  const last = otherValues.at(-1)
  const writer = last === undefined ? undefined : writers.get(last)
  if (!writer || writer.id === id) return
  const writerValues = writer.appends.filter(([listKey]) => listKey === key).map(([, value]) => value)
  if (writerValues.some((value) => !otherValues.includes(value)))
    violations.push(`${id}: saw only part of transaction ${writer.id} in list ${key}`)
}

function addWrites(
  graph: Graph,
  values: readonly number[],
  writers: ReadonlyMap<number, HistoryTransaction>,
): void {
  for (const [index, value] of values.entries()) {
    const next = writers.get(values[index + 1] ?? Number.NaN)
    const writer = writers.get(value)
    if (writer && next) graph.add('ww', writer.id, next.id)
  }
}

function addRead(
  graph: Graph,
  reader: HistoryTransaction,
  list: readonly number[],
  length: number,
  writers: ReadonlyMap<number, HistoryTransaction>,
): void {
  const writer = writers.get(list[length - 1] ?? Number.NaN)
  if (writer) graph.add('wr', writer.id, reader.id)
  const next = list.slice(length).find((value) => writers.get(value)?.id !== reader.id)
  const overwriter = next === undefined ? undefined : writers.get(next)
  if (overwriter) graph.add('rw', reader.id, overwriter.id)
}

/** Adds an edge from each committed transaction to those that began after it ended, unless other edges imply it. */
function addOrder(
  graph: Graph,
  history: readonly HistoryTransaction[],
  order: 'real-time' | 'session',
): void {
  const groups = order === 'real-time' ? [history] : Map.groupBy(history, ({ session }) => session).values()
  for (const group of groups) {
    const committed = group.filter(({ outcome }) => outcome === 'committed')
    const times = [
      ...group.map((transaction) => ({ at: transaction.start, isEnd: false, transaction })),
      ...committed.map((transaction) => ({ at: transaction.end, isEnd: true, transaction })),
    ].toSorted((a, b) => a.at - b.at || Number(a.isEnd) - Number(b.isEnd))
    let frontier: HistoryTransaction[] = []
    for (const { isEnd, transaction } of times) {
      if (isEnd) frontier = [...frontier.filter(({ end }) => end >= transaction.start), transaction]
      else for (const predecessor of frontier) graph.add('order', predecessor.id, transaction.id)
    }
  }
}

/** A graph of transactions. Each edge requires one to precede another. */
class Graph {
  readonly counts: Record<EdgeKind, number> = { ww: 0, wr: 0, rw: 0, order: 0 }
  readonly #successors = new Map<number, Set<number>>()

  add(kind: EdgeKind, from: number, to: number): void {
    if (from === to) return
    this.counts[kind] += 1
    const successors = this.#successors.get(from) ?? new Set()
    this.#successors.set(from, successors.add(to))
  }

  /** Returns the strongly connected components of two or more transactions (Tarjan's algorithm, without recursion). */
  cycles(): number[][] {
    const index = new Map<number, number>()
    const lowLinks = new Map<number, number>()
    const stack: number[] = []
    const isOnStack = new Set<number>()
    const components: number[][] = []
    const visit = (node: number): { node: number; remaining: number[] } => {
      index.set(node, index.size)
      lowLinks.set(node, index.get(node) as number)
      stack.push(node)
      isOnStack.add(node)
      return { node, remaining: [...(this.#successors.get(node) ?? [])] }
    }
    const lowerTo = (node: number, to: number): unknown =>
      lowLinks.set(node, Math.min(lowLinks.get(node) as number, to))
    for (const root of this.#successors.keys()) {
      const frames = index.has(root) ? [] : [visit(root)]
      for (let top = frames.at(-1); top; top = frames.at(-1)) {
        const { node } = top
        const next = top.remaining.pop()
        if (next !== undefined) {
          if (!index.has(next)) frames.push(visit(next))
          else if (isOnStack.has(next)) lowerTo(node, index.get(next) as number)
          continue
        }
        frames.pop()
        const parent = frames.at(-1)
        if (parent) lowerTo(parent.node, lowLinks.get(node) as number)
        if (lowLinks.get(node) !== index.get(node)) continue
        const component = stack.splice(stack.indexOf(node))
        for (const member of component) isOnStack.delete(member)
        if (component.length > 1) components.push(component)
      }
    }
    return components
  }
}
