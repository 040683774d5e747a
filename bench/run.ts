// Measures speed and size, compared with plain undici and with other clients. Run: npm run bench [-- --only SUITE,… --rounds N
// --write --compare]
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createClient, serverVersion } from '@batonsql/core'
import { SUITES } from './lib/page.ts'
import { prepare } from './lib/prepare.ts'
import { findRegressions, type Measurement, meetsGoal, type Results } from './lib/results.ts'
import { type Comparison, takeTurns } from './lib/turns.ts'
import { writePages } from './lib/write-pages.ts'
import { openAuthenticatedSqld, openChild, openEmbedded, openSqld } from './servers/open-servers.ts'
import { CLIENT_OPERATIONS, CLIENTS, OPTION_OPERATIONS, OPTIONS } from './suites/client.ts'
import { measureColdStart } from './suites/cold-start.ts'
import { measureDistance } from './suites/distance.ts'
import { measureGateway } from './suites/gateway.ts'
import { measureMemory } from './suites/memory.ts'
import { ORM_OPERATIONS, ORMS } from './suites/orm.ts'
import { compareServers } from './suites/servers.ts'
import { measureSizes } from './suites/size.ts'

const TOLERANCE = 0.1
const resolvePath = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const RESULTS_FILE = resolvePath('results/results.json')

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    only: { type: 'string' },
    write: { type: 'boolean', default: false },
    compare: { type: 'boolean', default: false },
  },
})
const rounds = Number(values.rounds)
if (!Number.isInteger(rounds) || rounds < 1) throw new RangeError('--rounds must be an integer >= 1')
const selectedSuites = values.only?.split(',')
for (const name of selectedSuites ?? [])
  if (!(name in SUITES))
    throw new RangeError(`unknown suite ${name}; the suites are ${Object.keys(SUITES).join(', ')}`)
const isSelected = (suite: string): boolean => selectedSuites?.includes(suite) ?? true

await using sqld = await openSqld()
await using embedded = await openEmbedded()
await using canned = await openChild('canned', sqld.url)
const servers = { 'libsql-server': sqld.url, embedded: embedded.url }
for (const url of Object.values(servers)) await prepare(url)
await using db = createClient({ url: sqld.url })
const server = await serverVersion(db)

const compare = (suite: string, comparison: Omit<Comparison, 'suite' | 'rounds'>): Promise<Measurement[]> =>
  takeTurns({ suite, rounds, ...comparison })
const client = (): Promise<Measurement[]> =>
  compare('client', { subjects: CLIENTS, servers, operations: CLIENT_OPERATIONS })

const measurements: Measurement[] = []
const record = (suite: string, suiteMeasurements: readonly Measurement[]): void => {
  measurements.push(...suiteMeasurements)
  console.log(`\n${SUITES[suite]?.title}`)
  for (const measurement of suiteMeasurements) {
    const { operation, environment, subject, unit, value, ratio, goal } = measurement
    const goalText = goal === undefined ? '' : `   ${goal} ${meetsGoal(measurement) ? 'met' : 'MISSED'}`
    console.log(
      `  ${operation.padEnd(42)} ${environment.padEnd(14)} ${subject.padEnd(30)} ${value.toFixed(1).padStart(12)} ${unit.padEnd(14)} × ${ratio.toFixed(2)}${goalText}`,
    )
  }
}

if (isSelected('client') || isSelected('servers')) {
  const clientMeasurements = await client()
  if (isSelected('client')) record('client', clientMeasurements)
  if (isSelected('servers')) record('servers', compareServers(clientMeasurements))
}
if (isSelected('orm'))
  record('orm', await compare('orm', { subjects: ORMS, servers, operations: ORM_OPERATIONS }))
if (isSelected('options')) {
  // records the responses, which the next command replays from memory
  const warmUp = { subjects: { baton: CLIENTS.baton }, servers: { canned: canned.url } }
  const warmUpOperations = OPTION_OPERATIONS.map((operation) => ({ ...operation, count: 1_200, inFlight: 1 }))
  await takeTurns({ suite: 'options', rounds: 1, operations: warmUpOperations, ...warmUp })
  canned.process.send('replay')
  record(
    'options',
    await compare('options', {
      subjects: OPTIONS,
      servers: { 'from memory': canned.url },
      operations: OPTION_OPERATIONS,
    }),
  )
}
if (isSelected('cold start')) record('cold start', await measureColdStart(sqld.url, rounds))
if (isSelected('distance') || isSelected('wire')) {
  const distanceMeasurements = await measureDistance(sqld.url, rounds)
  for (const suite of ['distance', 'wire'].filter(isSelected))
    record(
      suite,
      distanceMeasurements.filter((measurement) => measurement.suite === suite),
    )
}
if (isSelected('size')) record('size', await measureSizes(resolvePath('.')))
if (isSelected('gateway')) {
  await using authenticated = await openAuthenticatedSqld()
  await using proxy = await openChild('minimal-proxy', authenticated.url)
  await using gateway = await openChild('gateway')
  for (const target of [authenticated, gateway]) await prepare(target.url, target.token)
  const gatewayServers = {
    'libsql-server, without tokens': { url: sqld.url },
    'libsql-server': authenticated,
    'minimal proxy': { ...proxy, token: authenticated.token },
    gateway,
  }
  record('gateway', await measureGateway(gatewayServers, rounds))
}
if (isSelected('memory')) {
  const memoryMeasurements = await Promise.all(
    Object.entries(servers).map(([environment, url]) => measureMemory(url, environment)),
  )
  record('memory', memoryMeasurements.flat())
}

const results: Results = {
  date: new Date().toISOString(),
  node: process.version,
  cpu: cpus()[0]?.model ?? 'cpu',
  cores: cpus().length,
  server,
  rounds,
  measurements,
}
const missedGoals = measurements.filter((measurement) => !meetsGoal(measurement))
console.log(`\n${missedGoals.length} of ${measurements.filter(({ goal }) => goal).length} goals missed`)
if (values.compare) {
  const regressions = findRegressions(
    results,
    JSON.parse(readFileSync(RESULTS_FILE, 'utf8')) as Results,
    TOLERANCE,
  )
  for (const line of regressions) console.log(`worse: ${line}`)
  if (regressions.length > 0) process.exitCode = 1
}
if (values.write) {
  mkdirSync(resolvePath('results/'), { recursive: true })
  // preserves the figures of suites that were not run
  const stored = JSON.parse(readFileSync(RESULTS_FILE, 'utf8')) as Results
  const preserved = stored.measurements.filter(({ suite }) => !isSelected(suite))
  const mergedResults = {
    ...results,
    rounds: preserved.length > 0 ? Math.min(stored.rounds, rounds) : rounds,
    measurements: [...preserved, ...measurements],
  }
  writeFileSync(RESULTS_FILE, `${JSON.stringify(mergedResults, null, 1)}\n`)
  writePages(mergedResults)
  console.log(`written: docs/performance.md and its folder, ${RESULTS_FILE}`)
}
