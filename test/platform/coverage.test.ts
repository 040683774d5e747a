import { readFileSync, writeFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { openApiDocument, ROUTES, type Route, type RouteAccess } from '@batonsql/control-plane'
import * as v from 'valibot'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { PLATFORM_CALLS } from '../../packages/platform/test-support/platform-calls.ts'
import { LiveCalls, populate, sortDeletionsLast } from './live-calls.ts'
import { Harness } from './platform-harness.ts'
import { CLIENT_REQUESTS, COMMAND_LINE_REQUESTS } from './vendor-requests.ts'

// Checks the table in docs/platform.md. It lists, for each route, who may use it, the client's method (`request` if there is
// none), and the response on each back end. `UPDATE_DOCS=1` updates it; each back end updates its own column.

const MANIFEST = new URL('../../packages/local-server/package.json', import.meta.url)
const PAGE = new URL('../../docs/platform.md', import.meta.url)
const TABLE_HEAD = '| route | who | documented | client | embedded | sqld |'
const TABLE_RULE = '|---|---|---|---|---|---|'

const getName = ({ method, path }: Route): string => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`

/** Who may use a route, as worded in the documentation. */
function describeAccess(access: RouteAccess): string {
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

let harness: Harness
let calls: LiveCalls
let methods: ReadonlyMap<string, string>
const outcomes = new Map<string, string>()

beforeAll(async () => {
  harness = await Harness.start()
  await populate(harness)
  calls = new LiveCalls(harness)
  methods = await calls.findMethods()
  for (const name of sortDeletionsLast(ROUTES.map(getName)))
    outcomes.set(name, await calls.callRoute(name, methods.get(name)))
}, 180_000)
afterAll(() => harness[Symbol.asyncDispose]())

/** Returns a row of the table. The cell of the other back end keeps its value from the page. */
function formatRow(route: Route, existingRows: ReadonlyMap<string, string>): string {
  const name = getName(route)
  const cells = existingRows.get(name)?.split(' | ') ?? []
  const getOutcomeCell = (backend: string, columnIndex: number): string =>
    inject('target') === backend ? (outcomes.get(name) ?? '') : (cells[columnIndex] ?? '?')
  const method = methods.get(name)
  const client = `\`${method ?? 'request'}\``
  const documentedCell = route.isDocumented ? 'yes' : '–'
  const common = [`\`${name}\``, describeAccess(route.access), documentedCell, client]
  return `| ${[...common, getOutcomeCell('embedded', 4), getOutcomeCell('sqld', 5)].join(' | ')} |`
}

/** Returns the counts, in words. */
function summarize(rows: readonly string[]): string {
  const cells = rows.map((row) => row.slice(2, -2).split(' | '))
  const count = (columnIndex: number, value: string): number =>
    cells.filter((row) => row[columnIndex] === value).length
  const documentedCount = count(2, 'yes')
  const describeOutcomes = (columnIndex: number): string =>
    `${count(columnIndex, 'yes')} work, ${count(columnIndex, '501')} return 501`
  const describeRequests = (program: string, requests: readonly string[]): string => {
    const rows = cells.filter(([name]) => requests.includes(name?.slice(1, -1) ?? ''))
    const countServed = (columnIndex: number): number =>
      rows.filter((row) => row[columnIndex] === 'yes').length
    return `${program} sends ${requests.length} of these requests; served: ${countServed(4)} by embedded, ${countServed(5)} by sqld.`
  }
  return [
    `${rows.length} routes, ${documentedCount} of them documented. Embedded: ${describeOutcomes(4)}. sqld: ${describeOutcomes(5)}.`,
    describeRequests("The vendor's CLI (June 2026)", COMMAND_LINE_REQUESTS),
    describeRequests('`@tursodatabase/api` 2.0.5', CLIENT_REQUESTS),
  ].join('\n')
}

test('each route responds as documented in docs/platform.md', () => {
  const page = readFileSync(PAGE, 'utf8')
  const start = page.indexOf(TABLE_HEAD)
  const before = start < 0 ? page : page.slice(0, start)
  const rows = page
    .slice(before.length)
    .split('\n')
    .filter((line) => line.startsWith('| `'))
  const existingRows = new Map(rows.map((line) => [/`([^`]+)`/.exec(line)?.[1] ?? '', line.slice(2, -2)]))
  const updatedRows = ROUTES.map((route) => formatRow(route, existingRows))
  const text = `${before}${[TABLE_HEAD, TABLE_RULE, ...updatedRows].join('\n')}\n\n${summarize(updatedRows)}\n`
  if (process.env['UPDATE_DOCS'] !== undefined) writeFileSync(PAGE, text)
  expect(readFileSync(PAGE, 'utf8'), 'UPDATE_DOCS=1 updates the page').toBe(text)
})

test('each route succeeds, or responds with 501 and a reason', () => {
  const counts: Record<string, number> = {}
  for (const outcome of outcomes.values()) counts[outcome] = (counts[outcome] ?? 0) + 1
  expect(Object.keys(counts).sort()).toEqual(['501', 'yes'])
  const documented = ROUTES.filter(({ isDocumented }) => isDocumented).map(getName)
  const path = '/v1/organizations/{organizationSlug}/groups/{groupName}/locations/{location}'
  // without replicas, a location has no effect
  const unsupported = inject('target') === 'embedded' ? [`POST ${path}`, `DELETE ${path}`] : []
  expect(documented.filter((name) => outcomes.get(name) !== 'yes')).toEqual(unsupported)
})

test("requests from the vendor's programs are served, except requests for replicas on the embedded server", () => {
  const rejectedRequests = [...COMMAND_LINE_REQUESTS, ...CLIENT_REQUESTS].filter(
    (name) => outcomes.get(name) !== 'yes',
  )
  const isReplicaRoute = (name: string): boolean => /\/(?:locations\/\{location\}|instances)/.test(name)
  expect(rejectedRequests.filter((name) => inject('target') === 'sqld' || !isReplicaRoute(name))).toEqual([])
})

test('each successful response matches /openapi.json, without additional fields', async () => {
  const mismatches: Record<string, unknown> = {}
  for (const route of ROUTES.filter(({ schemas }) => schemas !== null)) {
    const name = getName(route)
    if (outcomes.get(name) === '501') continue
    const body = calls.bodies.get(name)
    if (!calls.bodies.has(name)) mismatches[name] = 'no successful response'
    const schema = route.schemas?.response ?? v.undefined()
    const { success, output, issues } = v.safeParse(schema, body)
    // parsing drops fields that are not in the schema
    if (!success) mismatches[name] = v.flatten(issues)
    else if (!isDeepStrictEqual(output, body)) mismatches[name] = body
  }
  expect(mismatches).toEqual({})
  const response = await harness.sendRequest('GET', '/openapi.json', { token: null })
  const { version } = JSON.parse(readFileSync(MANIFEST, 'utf8')) as { version: string }
  expect(response).toEqual({ status: 200, body: openApiDocument(ROUTES, version) })
})

test('every method of the client calls a route of the server', () => {
  const names = new Set(ROUTES.map(getName))
  expect([...methods].filter(([route]) => !names.has(route))).toEqual([])
  expect(methods.size).toBe(Object.keys(PLATFORM_CALLS).length)
})

test('every documented route has a method', () => {
  const documented = ROUTES.filter(({ isDocumented }) => isDocumented).map(getName)
  expect(documented).toHaveLength(49)
  expect(documented.filter((name) => !methods.has(name))).toEqual([])
})
