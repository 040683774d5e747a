import type { Token } from './sql-scanner.ts'

/** The parameters of a statement: the name of each by its number minus one, null for a plain `?` and for a gap. */
export type ParameterNames = readonly (string | null)[]

/** Numbers the parameters of a statement as SQLite does. */
export function findParameters(sql: string, tokens: readonly Token[]): ParameterNames {
  const names: (string | null)[] = []
  for (const token of tokens) {
    if (token.kind !== 'parameter') continue
    const text = sql.slice(token.start, token.end)
    if (text === '?') names.push(null)
    else if (text.startsWith('?')) nameNumbered(names, text)
    else if (!names.includes(text)) names.push(text)
  }
  return names
}

function nameNumbered(names: (string | null)[], text: string): void {
  const number = Number(text.slice(1))
  if (number < 1 || number > 32_766) return // the engine will refuse it
  while (names.length < number) names.push(null)
  names[number - 1] ??= text
}
