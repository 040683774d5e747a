import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { PLATFORM_CALLS } from '../test-support/platform-calls.ts'
import { type PlatformRequest, scriptedPlatform } from '../test-support/scripted-platform.ts'

// Checks that every documented route of the platform API has a method, and that the methods call documented routes, except those of
// `UNDOCUMENTED`. The routes come from a table that cites the service's documentation. Each method is called once, with all
// arguments, and receives the documented response.

interface Schema {
  readonly type?: string
  readonly fields?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly values?: Schema
  readonly enum?: readonly string[]
}
interface Row {
  readonly method: string
  readonly path: string
  readonly api: string
  readonly status: string
  readonly request: {
    readonly query?: Readonly<Record<string, unknown>>
    readonly body: { readonly content_type: string; readonly schema: Schema } | null
  }
  readonly response: { readonly body: Schema | null }
}

const file = new URL('../../../test/fixtures/platform-routes.json', import.meta.url)
const routes = (JSON.parse(readFileSync(file, 'utf8')) as Row[]).filter(
  ({ api, status }) => api === 'platform' && status === 'documented',
)
const getRouteName = ({ method, path }: { method: string; path: string }): string => `${method} ${path}`

/** The methods of an undocumented route, which `methods.test.ts` tests, and of Baton's own routes (`test/platform/snapshots.test.ts`). */
const UNDOCUMENTED = /^organizations\.create$|Snapshots?$/
const CALLS = Object.entries(PLATFORM_CALLS).filter(([name]) => !UNDOCUMENTED.test(name))
/** Methods that make several calls. */
const HELPERS = ['databases.ensure', 'databases.waitUntilReady', 'groups.ensure']
/** Fields that are sent but are not in the table: those in its notes, and deprecated ones. */
const EXTRA_FIELDS: Readonly<Record<string, readonly string[]>> = {
  'GET /v1/organizations/{organizationSlug}/databases': ['limit'],
  'POST /v1/organizations/{organizationSlug}/databases/{databaseName}/auth/tokens': [
    'fine_grained_permissions',
  ],
  'POST /v1/organizations/{organizationSlug}/groups/{groupName}/auth/tokens': ['fine_grained_permissions'],
}

/** Returns a sample value for a schema, in which each string contains the name of its field. */
function sample(schema: Schema, name = 'it'): unknown {
  if (schema.fields)
    return Object.fromEntries(Object.entries(schema.fields).map(([key, field]) => [key, sample(field, key)]))
  if (schema.items) return [sample(schema.items, name)]
  if (schema.values) return { some_key: sample(schema.values, name) }
  if (schema.type === 'object') return { some_key: name }
  if (schema.type === 'integer') return 9_007_199_254_740_991
  return schema.type === 'boolean' ? true : (schema.enum?.[0] ?? `text of ${name}`)
}

const findRow = ({ method, url }: PlatformRequest): Row | undefined =>
  routes.find(
    (row) =>
      getRouteName(row) === getRouteName({ method, path: decodeURIComponent(url.replace(/\?.*/, '')) }),
  )

async function callAll() {
  const { platform, received } = scriptedPlatform(
    (request) => {
      const row = findRow(request)
      return row ? { body: row.response.body ? sample(row.response.body) : undefined } : { status: 404 }
    },
    { organization: '{organizationSlug}', maxRetries: 0 },
  )
  const results = new Map<string, { readonly request: PlatformRequest; readonly result: unknown }>()
  for (const [name, call] of CALLS) {
    const result = await call(platform).catch((error: unknown) => error)
    results.set(name, { request: received.at(-1) as PlatformRequest, result })
  }
  return { platform, received, results }
}

/** Returns the names of all methods of the client, such as `groups.list`. */
const listMethods = (platform: object): string[] =>
  Object.entries(platform).flatMap(([part, methods]) =>
    typeof methods === 'object' ? Object.keys(methods as object).map((name) => `${part}.${name}`) : [],
  )

const { platform, received, results } = await callAll()

test('each of the 49 documented routes has exactly one method', () => {
  expect(routes).toHaveLength(49)
  const calledRoutes = [...results.values()].map(({ request }) =>
    getRouteName(findRow(request) ?? { method: '?', path: request.url }),
  )
  expect(calledRoutes.toSorted()).toEqual(routes.map(getRouteName).toSorted())
  expect(received).toHaveLength(routes.length)
})

test('the tests of this file cover every method', () => {
  expect(listMethods(platform).toSorted()).toEqual([...Object.keys(PLATFORM_CALLS), ...HELPERS].toSorted())
})

test.each([...results])(
  '%s sends the documented request, and parses the response',
  (_, { request, result }) => {
    expect(result).not.toBeInstanceOf(Error)
    const row = findRow(request) as Row
    const extra = EXTRA_FIELDS[getRouteName(row)] ?? []

    const query = new URL(request.url, 'http://host').searchParams
    const isCursor = (name: string): boolean => name === 'cursor' || name === 'limit'
    const names = [...query.keys()].filter((name) => !extra.includes(name) && !isCursor(name))
    expect(names.toSorted()).toEqual(
      Object.keys(row.request.query ?? {})
        .filter((name) => !isCursor(name))
        .toSorted(),
    )

    const body = row.request.body
    if (!body) expect([request.body, request.headers['content-type']]).toEqual(['', undefined])
    else {
      expect(request.headers['content-type']).toBe('application/json')
      const sentFields = Object.keys(JSON.parse(request.body as string) as object)
      const fields = Object.keys(body.schema.fields ?? {})
      // for an invitation, either of the two
      expect(sentFields.filter((name) => !extra.includes(name)).toSorted()).toEqual(
        fields.filter((name) => name !== 'username' || !fields.includes('email')).toSorted(),
      )
    }

    // the whole response is preserved, unchanged
    const response = row.response.body ? sample(row.response.body) : undefined
    const [inner] = Object.values(response ?? {}) as unknown[]
    const getRaw = (value: unknown): unknown => (value as { raw?: unknown }).raw
    const returned = (result as { items?: unknown } | undefined)?.items ?? result
    if (Array.isArray(returned)) expect([inner, response]).toContainEqual(returned.map(getRaw))
    else if (typeof returned === 'object' && returned !== null && 'raw' in returned)
      expect([inner, response]).toContainEqual(returned.raw)
  },
)
