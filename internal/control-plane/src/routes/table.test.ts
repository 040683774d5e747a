import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ROUTES } from './table.ts'

/** A row of the list of routes, which was compiled from public sources. */
interface Row {
  readonly method: string
  readonly path: string
  readonly api: string
  readonly status: string
  readonly scopes: { readonly min_level: string; readonly group_scope: string | null }
}

const file = new URL('../../../../test/fixtures/platform-routes.json', import.meta.url)
const documented = (JSON.parse(readFileSync(file, 'utf8')) as readonly Row[]).filter(
  ({ api, status }) => api === 'platform' && status === 'documented',
)
const routeName = ({ method, path }: { method: string; path: string }): string =>
  `${method} ${path.replaceAll(/\{slug\}|:organizationSlug/g, '{organizationSlug}').replaceAll(/:(\w+)/g, '{$1}')}`

test('marks exactly the documented routes as documented', () => {
  const markedRoutes = ROUTES.filter(({ isDocumented }) => isDocumented).map(routeName)
  expect(markedRoutes.sort()).toEqual(documented.map(routeName).sort())
})

test('contains no duplicate routes', () => {
  const names = ROUTES.map(routeName)
  expect(names.length).toBe(new Set(names).size)
})

test('routes require the documented scope of group tokens, and other routes reject such tokens', () => {
  for (const row of documented) {
    const access = ROUTES.find((route) => routeName(route) === routeName(row))?.access
    const scope = access?.level === 'group' || access?.level === 'any' ? access.scope : null
    // according to the documentation, `read` covers usage and locations; the list has no scope for them
    const isRead = ['/v1/locations', '/v1/organizations/{organizationSlug}/usage'].includes(row.path)
    expect([routeName(row), scope]).toEqual([routeName(row), isRead ? 'read' : row.scopes.group_scope])
  }
})
