import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { openApiDocument, ROUTES } from '@batonsql/control-plane/routes'
import * as v from 'valibot'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { PLATFORM_CALLS } from '../../packages/platform/test-support/platform-calls.ts'
import { LiveCalls, populate, sortDeletionsLast } from './live-calls.ts'
import { Harness } from './platform-harness.ts'
import { getName, readRoutes, writeRoutes } from './route-table.ts'
import { CLIENT_REQUESTS, COMMAND_LINE_REQUESTS } from './vendor-requests.ts'

const MANIFEST = new URL('../../packages/local-server/package.json', import.meta.url)

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

test('each route responds as recorded', () => {
  const recorded = readRoutes()
  // each back end records its own outcomes
  const current = Object.fromEntries(
    ROUTES.map(getName).map((name) => {
      const { embedded = '?', sqld = '?' } = recorded[name] ?? {}
      const method = methods.get(name) ?? 'request'
      return [name, { method, embedded, sqld, [inject('target')]: outcomes.get(name) ?? '' }]
    }),
  )
  if (process.env['UPDATE_DOCS'] !== undefined) writeRoutes(current)
  expect(readRoutes(), 'UPDATE_DOCS=1 records them, and npm run pages writes docs/platform.md').toEqual(
    current,
  )
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
