import { readFileSync } from 'node:fs'
import type { Shape } from './shape.ts'

/** A route as the service's documents have it. */
export interface DocumentedRoute {
  readonly method: string
  /** With `{name}` for what varies. */
  readonly path: string
  readonly response: { readonly status: number; readonly body: Shape | null }
  readonly scopes: {
    readonly min_level: 'any' | 'unrestricted' | 'organization' | 'group'
    readonly group_scope: string | null
    readonly role: string | null
  }
}

interface FixtureRow extends DocumentedRoute {
  readonly api: string
  readonly status: string
}

const file = new URL('../fixtures/platform-routes.json', import.meta.url)
const rows = JSON.parse(readFileSync(file, 'utf8')) as readonly FixtureRow[]

/** All of them. */
export const DOCUMENTED_ROUTES: readonly DocumentedRoute[] = rows.filter(
  ({ api, status }) => api === 'platform' && status === 'documented',
)

/** A path with its variables filled in. */
export function fill(path: string, values: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`nothing for {${name}}`)
    return encodeURIComponent(value)
  })
}
