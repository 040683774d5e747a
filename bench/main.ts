// Runs benchmarks by name: npm run bench -- NAME… [options]. Without a name, lists them.
import { spawnSync } from 'node:child_process'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createClient, serverVersion } from '@batonsql/core'
import { SUITES } from './lib/pages.ts'
import { prepare } from './lib/prepare.ts'
import {
  findRegressions,
  type Measurement,
  meetsGoal,
  readResults,
  recordResults,
  toRows,
} from './lib/results.ts'
import { type Comparison, takeTurns } from './lib/turns.ts'
import { openAuthenticatedSqld, openChild, openEmbedded, openSqld } from './servers/open-servers.ts'
import { CLIENT_OPERATIONS, CLIENTS } from './suites/client.ts'
import { measureColdStart } from './suites/cold-start.ts'
import { measureDistance } from './suites/distance.ts'
import { measureGateway } from './suites/gateway.ts'
import { measureMemory } from './suites/memory.ts'
import { measureOptimistic } from './suites/optimistic.ts'
import { ORM_OPERATIONS, ORMS } from './suites/orm.ts'
import { measureSizes } from './suites/size.ts'

/** Programs that are not suites, with their options. */
const PROGRAMS: Readonly<Record<string, string>> = {
  torn: 'counts the transactions that each client tears [--count 2000 --seed 1 --write]',
  contention:
    'many writers beside long reads, and whether the server survives [--seconds N --load NAME --server NAME --client NAME --write]',
  many: 'many databases on one server [--databases 100,1000 --backends embedded,sqld --groups 1 --write]',
  'large-bodies':
    'memory of the server while clients send the largest bodies [--clients 8,32 --backends embedded,sqld --bodies requests,text]',
  'test-databases':
    'databases for tests, compared with copies of a file and with PGlite [--rounds 5 --tests 300 --files 100]',
  soak: 'whether a client leaks memory, sockets or streams under load [--minutes 5]',
}
const TOLERANCE = 0.1

const [first = '', ...rest] = process.argv.slice(2)
if (first === '') {
  console.log('npm run bench -- NAME… [--rounds 5] [--compare] [--write], or all for every one of these:\n')
  for (const [name, { title }] of Object.entries(SUITES)) console.log(`  ${name.padEnd(12)} ${title}`)
  console.log('\nor one of:\n')
  for (const [name, about] of Object.entries(PROGRAMS)) console.log(`  ${name.padEnd(12)} ${about}`)
} else if (Object.hasOwn(PROGRAMS, first)) {
  // servers in their own processes import the built packages
  if (first === 'many' || first === 'test-databases') build()
  const flags = ['--expose-gc', '--conditions=@batonsql/source', '--no-warnings']
  const program = fileURLToPath(new URL(`programs/${first}.ts`, import.meta.url))
  const { status } = spawnSync(process.execPath, [...flags, program, ...rest], { stdio: 'inherit' })
  process.exitCode = status ?? 1
} else {
  await runSuites()
}

function build(): void {
  const { status } = spawnSync('turbo', ['run', 'build', '--output-logs=errors-only'], { stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}

async function runSuites(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '5' },
      write: { type: 'boolean', default: false },
      compare: { type: 'boolean', default: false },
    },
  })
  const rounds = Number(values.rounds)
  if (!Number.isInteger(rounds) || rounds < 1) throw new RangeError('--rounds must be an integer >= 1')
  const names = positionals[0] === 'all' ? Object.keys(SUITES) : positionals
  const unknown = names.find((name) => !(name in SUITES))
  if (unknown !== undefined)
    throw new RangeError(`unknown benchmark ${unknown}: npm run bench lists what there is`)
  build()
  const { measurements, server } = await measureSuites(names, rounds)
  const missedGoals = measurements.filter((measurement) => !meetsGoal(measurement))
  console.log(`\n${missedGoals.length} of ${measurements.filter(({ goal }) => goal).length} goals missed`)
  if (values.compare) {
    const regressions = findRegressions(measurements, TOLERANCE)
    for (const line of regressions) console.log(`worse: ${line}`)
    if (regressions.length > 0) process.exitCode = 1
  }
  if (!values.write) return
  // preserves the figures of suites that were not run
  const recorded = readResults()
  const preserved = recorded.rows.filter(({ suite }) => !names.includes(suite))
  recordResults({
    date: new Date().toISOString(),
    node: process.version,
    cpu: cpus()[0]?.model ?? 'cpu',
    cores: cpus().length,
    server,
    rounds: preserved.length > 0 ? Math.min(recorded.rounds, rounds) : rounds,
    rows: [...preserved, ...toRows(measurements)],
  })
}

async function measureSuites(
  names: readonly string[],
  rounds: number,
): Promise<{ measurements: Measurement[]; server: string }> {
  await using sqld = await openSqld()
  await using embedded = await openEmbedded()
  const servers = { 'libsql-server': sqld.url, embedded: embedded.url }
  for (const url of Object.values(servers)) await prepare(url)
  await using db = createClient({ url: sqld.url })
  const compare = (suite: string, comparison: Omit<Comparison, 'suite' | 'rounds'>): Promise<Measurement[]> =>
    takeTurns({ suite, rounds, ...comparison })
  const suites: Record<string, () => Promise<Measurement[]>> = {
    client: () => compare('client', { subjects: CLIENTS, servers, operations: CLIENT_OPERATIONS }),
    orm: () => compare('orm', { subjects: ORMS, servers, operations: ORM_OPERATIONS }),
    'cold-start': () => measureColdStart(sqld.url, rounds),
    optimistic: () => measureOptimistic(sqld.url, rounds),
    distance: () => measureDistance(sqld.url, rounds),
    size: () => measureSizes(fileURLToPath(new URL('.', import.meta.url))),
    memory: async () => {
      const environments = Object.entries(servers)
      return (
        await Promise.all(environments.map(([environment, url]) => measureMemory(url, environment)))
      ).flat()
    },
    gateway: () => measureGatewaySuite(sqld.url, rounds),
  }
  const measurements: Measurement[] = []
  for (const name of names) {
    const suiteMeasurements = (await suites[name]?.()) ?? []
    measurements.push(...suiteMeasurements)
    print(SUITES[name]?.title ?? name, suiteMeasurements)
  }
  return { measurements, server: await serverVersion(db) }
}

async function measureGatewaySuite(sqldUrl: string, rounds: number): Promise<Measurement[]> {
  await using authenticated = await openAuthenticatedSqld()
  await using proxy = await openChild('minimal-proxy', authenticated.url)
  await using gateway = await openChild('gateway')
  for (const target of [authenticated, gateway]) await prepare(target.url, target.token)
  const servers = {
    'libsql-server, without tokens': { url: sqldUrl },
    'libsql-server': authenticated,
    'minimal proxy': { ...proxy, token: authenticated.token },
    gateway,
  }
  return await measureGateway(servers, rounds)
}

function print(title: string, measurements: readonly Measurement[]): void {
  console.log(`\n${title}`)
  for (const measurement of measurements) {
    const { operation, environment, subject, unit, value, ratio, goal } = measurement
    const goalText = goal === undefined ? '' : `   ${goal} ${meetsGoal(measurement) ? 'met' : 'MISSED'}`
    console.log(
      `  ${operation.padEnd(42)} ${environment.padEnd(14)} ${subject.padEnd(30)} ${value.toFixed(1).padStart(12)} ${unit.padEnd(14)} × ${ratio.toFixed(2)}${goalText}`,
    )
  }
}
