import { median } from './statistics.ts'

/** One figure of one subject, and its ratio to the same figure of the base in the same round. */
export interface Measurement {
  readonly suite: string
  /** The operation that was measured. */
  readonly question: string
  /** Where it was measured: the name of the server or the runtime. */
  readonly where: string
  readonly subject: string
  /** What is measured, with its unit: `µs`, `client CPU µs`, `ms`, `bytes`, `requests`, `MiB`. */
  readonly figure: string
  readonly value: number
  /** The subject to which the ratio refers. */
  readonly base: string
  /** Median over the rounds. For times, above 1 is faster than the base; otherwise, below 1 is less than the base. */
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
  readonly rounds: number
  readonly measurements: readonly Measurement[]
}

const isTime = (figure: string): boolean => figure === 'µs' || figure === 'ms'

/** Combines the figures of the rounds into one measurement. */
export function measured(
  about: Omit<Measurement, 'value' | 'ratio'>,
  own: readonly number[],
  base: readonly number[],
): Measurement {
  const ratios = own.map((value, round) => {
    const floor = base[round] as number
    return isTime(about.figure) ? floor / value : value / floor
  })
  return { ...about, value: median(own), ratio: median(ratios) }
}

export const meets = ({ goal, ratio }: Measurement): boolean => {
  const [sign, bound] = goal?.split(' ') ?? []
  return sign === '<=' ? ratio <= Number(bound) : sign === '>=' ? ratio >= Number(bound) : true
}

/** Returns the measurements that are worse than in an older run by more than the tolerance. */
export function worseThan(now: Results, before: Results, by: number): string[] {
  const key = ({ suite, question, where, subject, figure }: Measurement): string =>
    [suite, question, where, subject, figure].join(' · ')
  const older = new Map(before.measurements.map((each) => [key(each), each]))
  return now.measurements.flatMap((each) => {
    const old = older.get(key(each))
    if (!old || !each.subject.startsWith('baton') || each.subject === each.base) return []
    const change = isTime(each.figure) ? old.ratio / each.ratio : each.ratio / old.ratio
    return change > 1 + by
      ? [`${key(each)}: ${old.ratio.toFixed(2)} before, ${each.ratio.toFixed(2)} now`]
      : []
  })
}
