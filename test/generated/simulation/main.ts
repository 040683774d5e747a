/*
 * Runs generated histories of the client, each from its own seed, after the regressions. `--histories` limits
 * their number, `--minutes` the time, `--seed` sets the first seed; `--report` prints the events of one history.
 */
import { parseArgs } from 'node:util'
import { generateHistory } from './generate-history.ts'
import type { History } from './history.ts'
import { REGRESSIONS } from './regression-histories.ts'
import { runHistory } from './run-history.ts'
import { shrink } from './shrink.ts'
import { realNow } from './world.ts'

const { values } = parseArgs({
  options: {
    histories: { type: 'string', default: '1000' },
    minutes: { type: 'string', default: '1000000' },
    seed: { type: 'string' },
    /** Maximum number of failures to shrink and explain. */
    'max-explained': { type: 'string', default: '5' },
    report: { type: 'boolean', default: false },
    /** Stops at the first failing history, without shrinking it. */
    first: { type: 'boolean', default: false },
  },
})

/** Maximum number of kinds of violations to list. */
const MAX_KINDS = 20

/**
 * Removes the parts of a violation that vary between histories, so that the same violation is recognized in a smaller
 * history.
 */
const normalize = (violation: string): string =>
  violation
    .replace(/\n[^]*/, '')
    .replace(/\((?:execute|batch|chain|script|rows) [^)]*\)/, '()')
    .replace(/\d+/g, 'N')
    .slice(0, 90)

async function findViolations(history: History): Promise<readonly string[]> {
  try {
    return (await runHistory(history)).violations
  } catch (error) {
    return [`the simulation failed: ${String(error)}`]
  }
}

/** Describes the events of a history. */
async function getReport(history: History): Promise<string> {
  try {
    return (await runHistory(history)).report()
  } catch (error) {
    return String(error)
  }
}

/** Prints the smallest history that fails like this one, with its events. */
async function explain(history: History, [first = '']: readonly string[]): Promise<void> {
  const kind = normalize(first)
  const smallest = await shrink(history, async (candidate) =>
    (await findViolations(candidate)).some((violation) => normalize(violation) === kind),
  )
  console.log(`the smallest history with the same failure:\n${JSON.stringify(smallest)}`)
  console.log(`${await getReport(smallest)}\n${(await findViolations(smallest)).join('\n')}\n`)
}

// capturing the stack is the most expensive part of an error
if (!values.report) Error.stackTraceLimit = 0

const failures = new Map<string, { count: number; seeds: number[] }>()
async function check(title: string, history: History, seed?: number): Promise<void> {
  const violations = await findViolations(history)
  if (violations.length === 0) return
  if (values.first) {
    console.log(`${title}: ${violations.join('\n')}`)
    process.exit(1)
  }
  const kind = normalize(violations[0] as string)
  const entry = failures.get(kind) ?? { count: 0, seeds: [] }
  entry.count += 1
  if (seed !== undefined) entry.seeds.push(seed)
  if (entry.count === 1 && failures.size < Number(values['max-explained'])) {
    console.log(`${title}: ${violations.join('\n')}`)
    await explain(history, violations)
  }
  failures.set(kind, entry)
}

const startedAt = realNow()
const seed = Number(values.seed ?? Math.floor(Number(process.hrtime.bigint() % 2n ** 31n)))
const count = values.report ? 1 : Number(values.histories)
for (const { title, history } of values.report ? [] : REGRESSIONS)
  await check(`regression: ${title}`, history)
let completed = 0
for (; completed < count && realNow() - startedAt < Number(values.minutes) * 60_000; completed++)
  await check(`seed ${seed + completed}`, generateHistory(seed + completed), seed + completed)
if (values.report) console.log(await getReport(generateHistory(seed)))
const seconds = (realNow() - startedAt) / 1_000
for (const [kind, { count: times, seeds }] of [...failures].slice(0, MAX_KINDS))
  console.log(`${times} times, seeds ${seeds.slice(0, 3).join()}: ${kind}`)
const failed = [...failures.values()].reduce((sum, { count: times }) => sum + times, 0)
console.log(
  `simulation: ${completed} histories from seed ${seed}, ${failed} failed, ${Math.round(completed / seconds)} per second`,
)
process.exit(failed > 0 ? 1 : 0)
