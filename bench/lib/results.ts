import { readFileSync, writeFileSync } from 'node:fs'
import { median } from './statistics.ts'

/** The result of one subject: the median of its values over the rounds, and the median of its ratios to the baseline. */
export interface Measurement {
  readonly suite: string
  /** The operation that was measured. */
  readonly operation: string
  /** Where it was measured: the name of the server or the runtime. */
  readonly environment: string
  readonly subject: string
  /** What is measured, with its unit: `µs`, `client CPU µs`, `ms`, `bytes`, `requests`, `MiB`. */
  readonly unit: string
  readonly value: number
  /** The subject to which the ratio refers. */
  readonly baseline: string
  /** Median over the rounds. For times, above 1 is faster than the baseline; otherwise, below 1 is less than the baseline. */
  readonly ratio: number
  /** The goal for the ratio, if it has one: `>= 0.95` or `<= 1.20`. */
  readonly goal?: string | undefined
}

/** A row of a table: one operation, measured in one unit, with the value, ratio and goal of each subject. */
export interface Row extends Pick<Measurement, 'suite' | 'operation' | 'environment' | 'unit' | 'baseline'> {
  readonly subjects: Readonly<Record<string, readonly [value: number, ratio: number, goal?: string]>>
}

/** The torn transactions of each client. */
interface TornFigures {
  readonly transactions: number
  readonly seed: number
  /** How many of them the server ended on its own. */
  readonly endedByServer: number
  readonly server: string
  readonly torn: Readonly<Record<string, number>>
}

/** A load of many writers on one server, with one client. */
export interface ContentionFigures {
  readonly load: string
  readonly seconds: number
  readonly server: string
  readonly client: string
  readonly commitsPerSecond: number
  readonly failed: number
  /** The longest time without a commit. */
  readonly longestStallMs: number
  readonly largestWalBytes: number
  /** Whether the server responded to a write afterwards. */
  readonly isResponsive: boolean
}

/** A server with many databases: each figure with its unit, by name. */
export interface ManyDatabasesFigures {
  readonly server: string
  readonly figures: Readonly<Record<string, string>>
}

/** All recorded figures, as stored in `results/results.json`. */
export interface Results {
  readonly date: string
  readonly node: string
  readonly cpu: string
  readonly cores: number
  readonly server: string
  /** The lowest number of rounds of any suite. */
  readonly rounds: number
  readonly torn: TornFigures
  readonly contention: readonly ContentionFigures[]
  readonly many: readonly ManyDatabasesFigures[]
  readonly rows: readonly Row[]
}

const FILE = new URL('../results/results.json', import.meta.url)

export const readResults = (): Results => JSON.parse(readFileSync(FILE, 'utf8')) as Results

/** Replaces recorded figures. The file has one line for each row, so that its changes can be reviewed. */
export function recordResults(changes: Partial<Results>): void {
  const results = Object.entries({ ...readResults(), ...changes }).map(([name, value]) => {
    const text = Array.isArray(value)
      ? `[\n${value.map((row) => `  ${JSON.stringify(row)}`).join(',\n')}\n ]`
      : JSON.stringify(value)
    return ` ${JSON.stringify(name)}: ${text}`
  })
  writeFileSync(FILE, `{\n${results.join(',\n')}\n}\n`)
  console.log('recorded in bench/results/results.json; npm run pages writes the pages')
}

/** Groups measurements into rows, with five significant digits. */
export function toRows(measurements: readonly Measurement[]): Row[] {
  const rows = new Map<string, Row & { subjects: Record<string, [number, number, string?]> }>()
  for (const { subject, value, ratio, goal, ...labels } of measurements) {
    const { suite, operation, environment, unit, baseline } = labels
    const key = JSON.stringify([suite, operation, environment, unit])
    const row = rows.get(key) ?? { suite, operation, environment, unit, baseline, subjects: {} }
    rows.set(key, row)
    const figures: [number, number] = [Number(value.toPrecision(5)), Number(ratio.toPrecision(4))]
    row.subjects[subject] = goal === undefined ? figures : [...figures, goal]
  }
  return [...rows.values()]
}

const isTime = (unit: string): boolean => unit === 'µs' || unit === 'ms'

/** Combines the values of the rounds into one measurement. */
export function toMeasurement(
  labels: Omit<Measurement, 'value' | 'ratio'>,
  values: readonly number[],
  baseValues: readonly number[],
): Measurement {
  const ratios = values.map((value, round) => {
    const baseValue = baseValues[round] as number
    return isTime(labels.unit) ? baseValue / value : value / baseValue
  })
  return { ...labels, value: median(values), ratio: median(ratios) }
}

export const meetsGoal = ({ goal, ratio }: Pick<Measurement, 'goal' | 'ratio'>): boolean => {
  const [operator, bound] = goal?.split(' ') ?? []
  return operator === '<=' ? ratio <= Number(bound) : operator === '>=' ? ratio >= Number(bound) : true
}

/** Returns a message for each of our measurements that is worse than the recorded one by more than the tolerance. */
export function findRegressions(measurements: readonly Measurement[], tolerance: number): string[] {
  const { rows } = readResults()
  return measurements.flatMap(({ suite, operation, environment, subject, unit, ratio, baseline }) => {
    const [, recorded] =
      rows.find(
        (row) =>
          row.suite === suite &&
          row.operation === operation &&
          row.environment === environment &&
          row.unit === unit,
      )?.subjects[subject] ?? []
    if (recorded === undefined || !subject.startsWith('baton') || subject === baseline) return []
    const change = isTime(unit) ? recorded / ratio : ratio / recorded
    if (change <= 1 + tolerance) return []
    const name = [suite, operation, environment, subject, unit].join(' · ')
    return [`${name}: ${recorded.toFixed(2)} recorded, ${ratio.toFixed(2)} now`]
  })
}
