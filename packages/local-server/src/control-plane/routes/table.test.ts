import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Route } from './route.ts'
import { ROUTES } from './table.ts'

/** A row of the list of routes that was put together from public sources. */
interface Row {
  readonly method: string
  readonly path: string
  readonly api: string
  readonly status: string
  readonly scopes: { readonly min_level: string; readonly group_scope: string | null }
}

const file = new URL('../../../../../test/fixtures/platform-routes.json', import.meta.url)
const documented = (JSON.parse(readFileSync(file, 'utf8')) as readonly Row[]).filter(
  ({ api, status }) => api === 'platform' && status === 'documented',
)
const nameOf = ({ method, path }: { method: string; path: string }): string =>
  `${method} ${path.replaceAll(/\{slug\}|:organizationSlug/g, '{organizationSlug}').replaceAll(/:(\w+)/g, '{$1}')}`

test('the table has the documented routes, and marks no other so', () => {
  const marked = ROUTES.filter(({ isDocumented }) => isDocumented).map(nameOf)
  expect(marked.sort()).toEqual(documented.map(nameOf).sort())
})

/** Who may use a route, in the words of the documents. */
function whose({ access }: Route): string {
  switch (access.level) {
    case 'none':
      return '–'
    case 'any':
      return access.scope === null ? 'any token' : `any token; group: \`${access.scope}\``
    case 'user':
      return 'unrestricted token'
    case 'organization':
      return `organization token, ${access.role}`
    case 'group':
      return `group: \`${access.scope}\`, ${access.role}`
    default:
      return access satisfies never
  }
}

test('docs/platform.md lists every route with who may use it', () => {
  const rows = ROUTES.map((route) => {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}')
    return `| ${route.method} | \`${path}\` | ${whose(route)} | ${route.isDocumented ? 'yes' : ''} |`
  })
  const docs = readFileSync(new URL('../../../../../docs/platform.md', import.meta.url), 'utf8')
  const listed = docs.split('\n').filter((line) => /^\| (?:GET|POST|PUT|PATCH|DELETE) \|/.test(line))
  expect(listed).toEqual(rows)
})

test('every route is there once', () => {
  const names = ROUTES.map(nameOf)
  expect(names.length).toBe(new Set(names).size)
})

test('a group token needs the documented scope, and reaches nothing else', () => {
  for (const row of documented) {
    const access = ROUTES.find((route) => nameOf(route) === nameOf(row))?.access
    const scope = access?.level === 'group' || access?.level === 'any' ? access.scope : null
    expect([nameOf(row), scope]).toEqual([
      nameOf(row),
      row.path === '/v1/locations' ? 'read' : row.scopes.group_scope,
    ])
  }
})
