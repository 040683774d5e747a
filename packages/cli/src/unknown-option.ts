import type { OptionTable } from './option-table.ts'

/** Describes an unknown option: suggests the most similar one, and lists all. */
export function unknownOption(given: string, options: OptionTable): string {
  const names = Object.keys(options).map((name) => `--${name}`)
  const [nearest] = names
    .map((name) => ({ name, distance: editDistance(given, name) }))
    .filter(({ distance }) => distance <= 2)
    .toSorted((a, b) => a.distance - b.distance)
  const known = names.length === 0 ? 'the command has no options' : `options: ${names.join(', ')}`
  const guess = nearest === undefined ? '' : `; did you mean ${nearest.name}?`
  return `unknown option ${given} (${known})${guess}`
}

/** Returns the number of letters to add, remove or replace. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (const [y, letter] of Array.from(from).entries()) {
    const next = [y + 1]
    for (const [x, other] of Array.from(to).entries()) {
      const replaced = (row[x] as number) + (letter === other ? 0 : 1)
      next.push(Math.min(replaced, (row[x + 1] as number) + 1, (next[x] as number) + 1))
    }
    row = next
  }
  return row.at(-1) as number
}
