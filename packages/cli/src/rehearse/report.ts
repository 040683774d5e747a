import type { Comparison } from './compare-states.ts'
import type { Unit } from './traffic-proxy.ts'

/** How long a transaction may hold the write lock while other writers wait, in ms. */
const WRITE_LOCK_MS = 5_000

/** Everything that a rehearsal found out. */
export interface Rehearsal {
  readonly command: readonly string[]
  /** How the command ended: its exit code, or the name of the signal. */
  readonly exit: number | string
  /** The end of what it wrote; empty if that was shown at once. */
  readonly output: string
  readonly comparison: Comparison
  readonly requests: number
  /** Time at the local server, in ms. */
  readonly localMs: number
  /** Time of an empty request to the real database, in ms. */
  readonly roundTripMs: number
  /** The request that took the server longest. */
  readonly longest: Unit | null
  /** The transaction that would take longest on the real database. */
  readonly slowest: Unit | null
  /** Whether the schema of the real database was changed meanwhile. */
  readonly isSourceChanged: boolean
  /** Whether something was written to the real database meanwhile. */
  readonly isSourceWritten: boolean
  /** Why it is unknown whether the real database was changed; null if it is known. */
  readonly sourceError: string | null
  /** Losses that were not allowed. */
  readonly losses: readonly string[]
}

export const SOURCE_CHANGED =
  'the schema of the real database was changed meanwhile: does the command use another variable for its URL?'

const SOURCE_WRITTEN =
  'the real database may have been written to meanwhile, by other programs or by the command'
const MOVED =
  'values moved to another table, or combined into one column, count as lost: --allow-loss accepts them'

function describeSource({ isSourceChanged, isSourceWritten, sourceError }: Rehearsal): string[] {
  if (sourceError !== null) return [sourceError]
  if (isSourceChanged) return [SOURCE_CHANGED]
  return isSourceWritten ? [SOURCE_WRITTEN] : []
}

/** Estimates the time of a unit on the real database, in ms. */
export const estimateMs = (
  { requests, localMs }: Pick<Unit, 'requests' | 'localMs'>,
  roundTripMs: number,
): number => requests * roundTripMs + localMs

const formatMs = (ms: number): string =>
  ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`

interface Section {
  readonly title: string
  readonly lines: readonly string[]
}

function toSections(rehearsal: Rehearsal): Section[] {
  const { comparison, requests, localMs, roundTripMs, longest, slowest } = rehearsal
  const { created, changed, dropped, renamed, rows, types, values, damage } = comparison
  const changedRows = rows.filter(({ before, after }) => before !== after)
  const slowestMs = slowest === null ? 0 : estimateMs(slowest, roundTripMs)
  const time = `about ${formatMs(estimateMs({ requests, localMs }, roundTripMs))} on the real database: ${requests} request${requests === 1 ? '' : 's'} with a round trip of ${formatMs(roundTripMs)}, and ${formatMs(localMs)} of work`
  return [
    { title: 'Losses', lines: rehearsal.losses.length > 0 ? [...rehearsal.losses, MOVED] : [] },
    { title: 'Damage', lines: damage },
    { title: 'The real database', lines: describeSource(rehearsal) },
    {
      title: 'Schema',
      lines: [
        ...created.map((name) => `+ ${name}`),
        ...changed.map((name) => `~ ${name}`),
        ...dropped.map((name) => `- ${name}`),
        ...renamed.map((text) => `renamed: ${text}`),
      ],
    },
    {
      title: 'Rows',
      lines: changedRows.map(
        ({ table, before, after }) => `${table}: ${before ?? 'none'} -> ${after ?? 'none'}`,
      ),
    },
    { title: 'Values', lines: [...types, ...values.map((column) => `${column}: values changed`)] },
    {
      title: 'Time',
      lines: [
        time,
        ...(longest === null ? [] : [`longest request: ${formatMs(longest.localMs)}, ${longest.sql}`]),
        ...(slowestMs > WRITE_LOCK_MS
          ? [
              `a transaction would take about ${formatMs(slowestMs)}: other writers wait for it, and after 5 s one of them may end it (${slowest?.sql})`,
            ]
          : []),
      ],
    },
  ].filter(({ lines }) => lines.length > 0)
}

const isUnchanged = ({
  comparison: { created, changed, dropped, rows, types, values },
}: Rehearsal): boolean =>
  created.length + changed.length + dropped.length + types.length + values.length === 0 &&
  rows.every(({ before, after }) => before === after)

function summarize(rehearsal: Rehearsal): string {
  const { command, exit } = rehearsal
  return `\`${command.join(' ')}\` ${describeExit(exit)}${isUnchanged(rehearsal) ? '; no change was found' : ''}`
}

function describeExit(exit: number | string): string {
  if (exit === 0) return 'succeeded'
  return typeof exit === 'number' ? `failed with exit code ${exit}` : `was ended by ${exit}`
}

export const formatText = (rehearsal: Rehearsal): string =>
  [
    summarize(rehearsal).replaceAll('`', ''),
    ...toSections(rehearsal).map(({ title, lines }) =>
      [title, ...lines.map((line) => `  ${line}`)].join('\n'),
    ),
  ].join('\n\n')

export const formatMarkdown = (rehearsal: Rehearsal): string =>
  [
    `### Rehearsal on a copy: ${summarize(rehearsal)}`,
    ...toSections(rehearsal).map(({ title, lines }) =>
      [`**${title}**`, '', ...lines.map((line) => `- ${line.replaceAll(/(^[+-]|[<>|])/g, '\\$1')}`)].join(
        '\n',
      ),
    ),
  ].join('\n\n')
