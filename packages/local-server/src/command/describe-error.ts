import { UsageError } from './usage-error.ts'
import { visibleLines } from './visible-text.ts'

/** What to try, by what went wrong. */
const HINTS: readonly (readonly [RegExp, string])[] = [
  [/ECONNREFUSED/, 'Nothing listens there. Is the server running? `baton dev` starts one on port 8080.'],
  [/ENOTFOUND|EAI_AGAIN/, 'There is no host of this name.'],
  [
    /^[A-Z]+ \/v1\/\S* answered HTTP 401/,
    'The platform API wants a token of its own: --token, or BATON_API_TOKEN in the environment.',
  ],
  [
    /answered HTTP 401.*authorization header but none given/i,
    'The database wants a token: --auth-token, or BATON_AUTH_TOKEN in the environment.',
  ],
  [
    /answered HTTP 401/,
    'The database refused the token that was sent: is it one for this database or its group, and still valid? A rotation ends all tokens from before.',
  ],
  // the platform API says itself what there is not
  [/^(?![A-Z]+ \/v1\/).*answered HTTP 404/, 'Is the name of the database right?'],
  [
    /RESPONSE_TOO_LARGE|Response is too large/i,
    'With --json rows are read as they come, as many as there are.',
  ],
]

/** What a terminal shows of an error. */
export function describeError(error: unknown): string {
  if (error instanceof UsageError) return error.message
  if (!(error instanceof Error)) return `baton: ${String(error)}`
  return `baton: ${withHint(visibleLines(error.message))}`
}

function withHint(message: string): string {
  const hint = HINTS.find(([pattern]) => pattern.test(message))
  return hint === undefined ? message : `${message}\n${hint[1]}`
}
