import { type Fault, World } from './stream-world.ts'

/** A violation, and the moves that led to it. */
export interface Finding {
  readonly violation: string
  readonly moves: readonly string[]
}

/** Plays random histories. @param random numbers from 0 to 1 @returns the shortest history that broke a rule */
// oxlint-disable-next-line max-params
export function playHistories(
  count: number,
  length: number,
  random: () => number,
  fault?: Fault,
): Finding | null {
  let shortest: Finding | null = null
  for (let history = 0; history < count; history += 1) {
    const world = new World(2, fault)
    const names: string[] = []
    while (names.length < length && !world.violation) {
      const progress = random() < 0.4 ? world.progress() : []
      const moves = progress.length > 0 ? progress : world.moves()
      const move = moves[Math.floor(random() * moves.length)]
      if (!move) break
      names.push(move[0])
      move[1]()
      world.check()
    }
    if (!world.violation) world.settle()
    if (world.violation && (!shortest || names.length < shortest.moves.length))
      shortest = { violation: world.violation, moves: names }
  }
  return shortest
}

/** The extent of a search. */
export interface SearchResult {
  readonly states: number
  readonly depth: number
  readonly finding: Finding | null
}

/** Searches all orders of moves, shortest first, up to a number of states. */
export function searchStates(maxStates: number): SearchResult {
  const visited = new Set<number>()
  // a state is kept as the moves that lead to it, one letter for each, which takes less memory than a copy
  let level = ['']
  let depth = 0
  for (; level.length > 0 && visited.size < maxStates; depth += 1) {
    const next: string[] = []
    for (const path of level) {
      const count = replay(path).world.moves().length
      for (let move = 0; move < count && visited.size < maxStates; move += 1) {
        const longerPath = path + String.fromCharCode(FIRST_LETTER + move)
        const { world, moves } = replay(longerPath)
        world.check()
        const key = hash(world.key())
        if (!world.violation && visited.has(key)) continue
        visited.add(key)
        next.push(longerPath)
        if (!world.violation) world.settle()
        const { violation } = world
        if (violation) return { states: visited.size, depth, finding: { violation, moves } }
      }
    }
    level = next
  }
  return { states: visited.size, depth, finding: null }
}

const FIRST_LETTER = 32

/** Makes moves in a new world. @param path their positions among the moves that are possible */
function replay(path: string): { readonly world: World; readonly moves: readonly string[] } {
  const world = new World(2)
  const moves: string[] = []
  for (const letter of path) {
    const move = world.moves()[letter.charCodeAt(0) - FIRST_LETTER]
    if (!move) break
    moves.push(move[0])
    move[1]()
  }
  return { world, moves }
}

/** Returns 53 bits of a hash (cyrb53). */
function hash(text: string): number {
  let [a, b] = [0xdeadbeef, 0x41c6ce57]
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    a = Math.imul(a ^ code, 2654435761)
    b = Math.imul(b ^ code, 1597334677)
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909)
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909)
  return 4294967296 * (2097151 & b) + (a >>> 0)
}
