import { escapeLines } from './escape-controls.ts'
import { UsageError } from './usage-error.ts'

/** Hints, by pattern of the error message. The first that matches is shown. */
const HINTS: readonly (readonly [RegExp, string])[] = [
  [/ECONNREFUSED/, 'Is the server running? `baton dev` starts one on port 8080.'],
  [/ENOTFOUND|EAI_AGAIN/, 'The host does not exist.'],
  [
    /^[A-Z]+ \/v1\/\S* returned HTTP 401/,
    'The platform API needs its own token: pass --token, or set BATON_API_TOKEN.',
  ],
  [
    /returned HTTP 401.*authorization header but none given/i,
    'The database needs a token: pass --auth-token, or set BATON_AUTH_TOKEN.',
  ],
  [
    /returned HTTP 401/,
    'The database rejected the token. Is it for this database or its group, and still valid? A rotation invalidates all earlier tokens.',
  ],
  [
    /database \S+ is protected from deletion/,
    '`baton databases configure NAME --delete-protection off` unprotects it.',
  ],
  [
    /group \S+ is protected from deletion/,
    '`baton groups configure NAME --delete-protection off` unprotects it.',
  ],
  [
    /^[A-Z]+ \/v1\/\S* returned HTTP 404$/,
    'That is not the platform API: `baton dev --platform-port` prints its URL, whose port is not that of the databases.',
  ],
  [/invalid location: /, '`baton locations list` lists the locations.'],
  // errors of the platform API name the missing object
  [/^(?![A-Z]+ \/v1\/).*returned HTTP 404/, 'Is the name of the database correct?'],
  [/Response is too large/i, '`baton sql --json` and `--csv` print results of any size.'],
]

/** Returns the text of an error for a terminal. */
export function describeError(error: unknown): string {
  if (error instanceof UsageError) return error.message
  if (!(error instanceof Error)) return `baton: ${String(error)}`
  // of a DatabaseError, or a PlatformError with its method: the classes are not loaded for commands that send nothing
  const { outcome, method } = error as Error & { readonly outcome?: string; readonly method?: string }
  const isUnknown = outcome === 'unknown' && method !== 'GET'
  const note = isUnknown ? '\nIt is unknown whether the changes were applied.' : ''
  return `baton: ${withHint(escapeLines(error.message))}${note}`
}

function withHint(message: string): string {
  const hint = HINTS.find(([pattern]) => pattern.test(message))
  // advice for programs, which a user of the command cannot follow
  const text = message.replace(': read it with readRows(), or with LIMIT', '')
  return hint === undefined ? text : `${text}\n${hint[1]}`
}
