import type { History } from './history.ts'

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

/** The required parts of a history. */
const REQUIRED_KEYS = new Set([
  'do',
  'kind',
  'seed',
  'tasks',
  'clients',
  'faults',
  'server',
  'steps',
  'client',
  'atMs',
  'request',
])

/**
 * Shrinks a failing history while it still fails: fewer elements in every list, fewer properties, smaller numbers.
 * @param fails whether a history fails in the same way @param maxTries how many histories to try
 */
export async function shrink(
  history: History,
  fails: (history: History) => Promise<boolean>,
  maxTries = 3_000,
): Promise<History> {
  let smallest = history
  let tries = 0
  for (let isSmaller = true; isSmaller; ) {
    isSmaller = false
    for (const smaller of generateSmaller(smallest as unknown as Json)) {
      if ((tries += 1) > maxTries) return smallest
      const candidate = smaller as unknown as History
      if (candidate.clients.length === 0 || !(await fails(candidate))) continue
      smallest = candidate
      isSmaller = true
      break
    }
  }
  return smallest
}

/** Generates all histories that are one step smaller, large steps first. */
function* generateSmaller(value: Json, name = ''): Generator<Json> {
  if (Array.isArray(value)) {
    const list = value as readonly Json[]
    for (let size = list.length; size >= 1; size = size >> 1)
      for (let start = 0; start + size <= list.length; start += size)
        if (name !== 'sql' || size < list.length) yield [...list.slice(0, start), ...list.slice(start + size)]
    for (const [index, element] of list.entries()) {
      // a step that contains other steps is replaced with them
      const inner = (element as { steps?: readonly Json[] } | null)?.steps
      if (name === 'steps' && inner) yield [...list.slice(0, index), ...inner, ...list.slice(index + 1)]
      for (const smaller of generateSmaller(element)) yield list.with(index, smaller)
    }
  } else if (typeof value === 'number') yield* generateSmallerNumbers(value, name)
  else if (typeof value === 'string') {
    if (name === 'sql' && value !== 'insert') yield 'insert'
  } else if (typeof value === 'object' && value !== null) {
    const object = value as { readonly [name: string]: Json }
    for (const key of Object.keys(object)) {
      if (REQUIRED_KEYS.has(key) || key === 'sql') continue
      const { [key]: _, ...rest } = object
      yield rest
    }
    for (const [key, property] of Object.entries(object))
      for (const smaller of generateSmaller(property, key)) yield { ...object, [key]: smaller }
  }
}

function* generateSmallerNumbers(value: number, name: string): Generator<number> {
  // a status code, for example, does not become simpler when it is closer to 0
  if (value <= 0 || name === 'value') return
  yield 0
  if (name === 'seed' || value <= 1) return
  yield value >> 1
  yield value - 1
}
