import { readFileSync } from 'node:fs'
import type { Shape } from './shape.ts'

/** A route of the service, from its documentation or from the requests of its tools. */
export interface KnownRoute {
  readonly method: string
  /** The path, with `{name}` for variable parts. */
  readonly path: string
  readonly response: { readonly status: number; readonly body: Shape | null }
  readonly scopes: {
    readonly min_level: 'none' | 'any' | 'unrestricted' | 'organization' | 'group' | 'client-basic-auth'
    readonly group_scope: string | null
    readonly role: string | null
  }
}

interface FixtureRow extends KnownRoute {
  readonly api: string
  readonly status: string
}

const file = new URL('../fixtures/platform-routes.json', import.meta.url)
const rows = (JSON.parse(readFileSync(file, 'utf8')) as readonly FixtureRow[]).filter(
  ({ api }) => api === 'platform',
)

/** All documented routes. */
export const DOCUMENTED_ROUTES: readonly KnownRoute[] = rows.filter(({ status }) => status === 'documented')

/** Routes known only from the vendor's tools, or from pages about individual features; not those that the service withdrew. */
export const UNDOCUMENTED_ROUTES: readonly KnownRoute[] = rows.filter(
  ({ status }) => status !== 'documented' && status !== 'withdrawn',
)

/** Fills in the variables of a path. */
export function fill(path: string, values: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`no value for {${name}}`)
    return encodeURIComponent(value)
  })
}

/** Values for the parameters in paths. */
export const PATH_PARAMETERS = {
  organizationSlug: 'local',
  databaseName: 'app',
  instanceName: 'local',
  groupName: 'team',
  location: 'fra',
  username: 'bob',
  email: 'carol@example.test',
  tokenName: 'robot',
} as const
