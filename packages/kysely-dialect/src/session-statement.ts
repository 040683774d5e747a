/** What a statement means for the connection that runs it: it needs a stream, or ends the transaction on it. */
export type SessionEffect = 'begins' | 'ends' | 'session'

// Each alternative begins and ends in one way only, so that nothing is tried twice.
const SPACE = String.raw`(?:[\s;]|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)`
const STATEMENT = new RegExp(
  `^${SPACE}*(?:` +
    `(?<begins>begin\\b)|` +
    `(?<ends>(?:commit|end)\\b|rollback\\b(?!${SPACE}*(?:transaction\\b${SPACE}*)?to\\b))|` +
    `(?<session>(?:savepoint|attach|detach)\\b|pragma\\b[^=(]*(?:=|\\(\\s*(?:-?\\d|on|off|true|false|yes|no)\\b)))`,
  'i',
)

/**
 * Finds the statements whose effect is lost when the next one goes over another stream. All others need none, which
 * is why one query is one request.
 */
export function sessionEffect(sql: string): SessionEffect | null {
  const groups = STATEMENT.exec(sql)?.groups
  if (!groups) return null
  return groups['begins'] ? 'begins' : groups['ends'] ? 'ends' : 'session'
}
