import { Refusal } from '../refusal.ts'
import type { Scope } from '../registry/rows.ts'

/** The only scope of a token that is good for `GET /metrics` and nothing else. */
export const METRICS_ONLY: readonly Scope[] = ['metrics']

/** What a group-scoped token can be given, in the order in which it is shown. */
const SCOPES: readonly Scope[] = [
  'read',
  'db:create',
  'db:delete',
  'db:configure',
  'db:mint-token',
  'db:rotate-creds',
  'group:configure',
  'group:mint-token',
  'group:rotate-creds',
]

const PRESETS: Readonly<Record<string, readonly Scope[]>> = { 'read-only': ['read'], 'full-access': SCOPES }

/** Single scopes of a list that may hold presets; each once. @throws Refusal for what is neither */
export function expandScopes(given: readonly string[]): readonly Scope[] {
  if (given.length === 0) throw new Refusal(400, 'a group-scoped token needs at least one scope')
  const wanted = new Set<string>(
    given.flatMap((name): readonly string[] =>
      Object.hasOwn(PRESETS, name) ? (PRESETS[name] as readonly Scope[]) : [name],
    ),
  )
  for (const name of wanted) {
    if (!(SCOPES as readonly string[]).includes(name))
      throw new Refusal(
        400,
        `invalid scope: ${name.slice(0, 40)}; known: ${[...SCOPES, ...Object.keys(PRESETS)].join(', ')}`,
      )
  }
  return SCOPES.filter((scope) => wanted.has(scope))
}
