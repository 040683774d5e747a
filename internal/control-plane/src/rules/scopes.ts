import { ApiError } from '../api-error.ts'

/** Scopes of a group-scoped token, in the order in which they are shown. `metrics` is not among them: it is granted by itself. */
const SCOPES = [
  'read',
  'db:create',
  'db:delete',
  'db:configure',
  'db:mint-token',
  'db:rotate-creds',
  'group:configure',
  'group:mint-token',
  'group:rotate-creds',
] as const

/** A permission of a group-scoped token, or of a token for metrics. */
export type Scope = 'metrics' | (typeof SCOPES)[number]

/** Scopes of a token that is valid only for `GET /metrics`. */
export const METRICS_ONLY: readonly Scope[] = ['metrics']

/** Names that stand for several scopes. */
const PRESETS: Readonly<Record<string, readonly Scope[]>> = { 'read-only': ['read'], 'full-access': SCOPES }

/** Expands presets in a list to scopes, without duplicates. @throws ApiError for unknown names, or an empty list */
export function expandScopes(names: readonly string[]): readonly Scope[] {
  if (names.length === 0) throw new ApiError(400, 'a group-scoped token needs at least one scope')
  const requested = new Set<string>(
    names.flatMap((name): readonly string[] =>
      Object.hasOwn(PRESETS, name) ? (PRESETS[name] as readonly Scope[]) : [name],
    ),
  )
  for (const name of requested) {
    if (!(SCOPES as readonly string[]).includes(name))
      throw new ApiError(
        400,
        `invalid scope: ${name.slice(0, 40)} (expected one of: ${[...SCOPES, ...Object.keys(PRESETS)].join(', ')})`,
      )
  }
  return SCOPES.filter((scope) => requested.has(scope))
}
