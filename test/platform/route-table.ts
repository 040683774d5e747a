// The table of docs/platform.md. It lists, for each route, who may use it, the client's method (`request` if there is none), and the
// response on each back end, as coverage.test.ts records them.
import { readFileSync, writeFileSync } from 'node:fs'
import { ROUTES, type Route, type RouteAccess } from '@batonsql/control-plane/routes'
import { CLIENT_REQUESTS, COMMAND_LINE_REQUESTS } from './vendor-requests.ts'

const FILE = new URL('../fixtures/route-outcomes.json', import.meta.url)

/** What a route does: the client's method, and the outcome of a call on each back end. */
interface RecordedRoute {
  readonly method: string
  readonly embedded: string
  readonly sqld: string
}

export const readRoutes = (): Readonly<Record<string, RecordedRoute>> =>
  JSON.parse(readFileSync(FILE, 'utf8')) as Record<string, RecordedRoute>

/** Replaces the record: one line for each route. */
export function writeRoutes(routes: Readonly<Record<string, RecordedRoute>>): void {
  const lines = Object.entries(routes).map(
    ([name, route]) => `  ${JSON.stringify(name)}: ${JSON.stringify(route)}`,
  )
  writeFileSync(FILE, `{\n${lines.join(',\n')}\n}\n`)
}

export const getName = ({ method, path }: Route): string => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`

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

/** Returns the table, and the counts below it. */
export function routeTable(): string {
  const recorded = readRoutes()
  const rows = ROUTES.map((route) => {
    const name = getName(route)
    const { method, embedded, sqld } = recorded[name] ?? { method: '?', embedded: '?', sqld: '?' }
    const documented = route.isDocumented ? 'yes' : '–'
    return `| \`${name}\` | ${describeAccess(route.access)} | ${documented} | \`${method}\` | ${embedded} | ${sqld} |`
  })
  const head = ['| route | who | documented | client | embedded | sqld |', '|---|---|---|---|---|---|']
  return `${[...head, ...rows].join('\n')}\n\n${summarize(rows)}\n`
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
