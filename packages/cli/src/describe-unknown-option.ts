import type { OptionTable } from './option-table.ts'

/** Describes an unknown option: suggests the most similar one, and lists all. */
export function describeUnknownOption(option: string, options: OptionTable): string {
  const names = Object.keys(options).map((name) => `--${name}`)
  const [nearest] = names
    .map((name) => ({ name, distance: getEditDistance(option, name) }))
    .filter(({ distance }) => distance <= 2)
    .toSorted((a, b) => a.distance - b.distance)
  const optionList = names.length === 0 ? 'the command has no options' : `options: ${names.join(', ')}`
  const suggestion = nearest === undefined ? '' : `; did you mean ${nearest.name}?`
  return `unknown option ${option} (${optionList})${suggestion}`
}

/** Returns the number of letters to add, remove or replace. */
function getEditDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [y, letter] of Array.from(from).entries()) {
    const next = [y + 1]
    for (const [x, otherLetter] of Array.from(to).entries()) {
      const replacement = (row[x] as number) + (letter === otherLetter ? 0 : 1)
      next.push(Math.min(replacement, (row[x + 1] as number) + 1, (next[x] as number) + 1))
    }
    row = next
  }
  return row.at(-1) as number
}
