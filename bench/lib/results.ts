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
  /** The goal for the ratio, if it has one: `>= 1.00` or `<= 1.20`. */
  readonly goal?: string | undefined
}

/** A run, as stored in `results/`. */
export interface Results {
  readonly date: string
  readonly node: string
  readonly cpu: string
  readonly cores: number
  readonly server: string
  /** The lowest number of rounds of any suite. */
  readonly rounds: number
  readonly measurements: readonly Measurement[]
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

export const meetsGoal = ({ goal, ratio }: Measurement): boolean => {
  const [operator, bound] = goal?.split(' ') ?? []
  return operator === '<=' ? ratio <= Number(bound) : operator === '>=' ? ratio >= Number(bound) : true
}

/** Returns a message for each of our measurements that is worse than in the previous run by more than the tolerance. */
export function findRegressions(current: Results, previous: Results, tolerance: number): string[] {
  const getKey = ({ suite, operation, environment, subject, unit }: Measurement): string =>
    [suite, operation, environment, subject, unit].join(' · ')
  const previousByKey = new Map(
    previous.measurements.map((measurement) => [getKey(measurement), measurement]),
  )
  return current.measurements.flatMap((measurement) => {
    const earlier = previousByKey.get(getKey(measurement))
    if (!earlier || !measurement.subject.startsWith('baton') || measurement.subject === measurement.baseline)
      return []
    const change = isTime(measurement.unit)
      ? earlier.ratio / measurement.ratio
      : measurement.ratio / earlier.ratio
    return change > 1 + tolerance
      ? [`${getKey(measurement)}: ${earlier.ratio.toFixed(2)} before, ${measurement.ratio.toFixed(2)} now`]
      : []
  })
}
