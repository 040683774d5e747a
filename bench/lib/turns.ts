// Subjects take turns within each round, each in a separate process, so that changes in the machine's speed affect all of them.
// The result is the ratio to the baseline in the same round.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { type Measurement, toMeasurement } from './results.ts'
import type { Figures, Task } from './subject-process.ts'

export interface Operation {
  readonly name: string
  readonly title: string
  /** Number of operations in a round. Subjects other than the baseline and ours are far slower, and perform a fifth of them. */
  readonly count: number
  /** Number of operations in flight. @default 1 */
  readonly inFlight?: number | undefined
  /** Number of items that one operation yields, such as rows. @default 1 */
  readonly itemCount?: number | undefined
  /** Goals for the speed, or the CPU time, of a subject on a server: `subject @ server, unit`. */
  readonly goals?: Readonly<Record<string, string>> | undefined
}

interface MeasuredServer {
  readonly url: string
  readonly token?: string | undefined
  /** A process from `servers/`, whose CPU time is also measured. */
  readonly process?: ChildProcess
}

export interface Comparison {
  readonly suite: string
  /** Files of `subjects/`, by their names in the tables. The first is the baseline. */
  readonly subjects: Readonly<Record<string, string>>
  /** The URLs of the servers, or URLs with further options. */
  readonly servers: Readonly<Record<string, string | MeasuredServer>>
  readonly operations: readonly Operation[]
  readonly rounds: number
  /** Duration of the warm-up of each subject and operation, so that the code is compiled before it is measured. @default 1,000 */
  readonly warmUpMs?: number
}

interface Participant {
  readonly subject: string
  readonly environment: string
  readonly process: ChildProcess
  readonly server: ChildProcess | null
  readonly operations: readonly string[]
}

export async function takeTurns(comparison: Comparison): Promise<Measurement[]> {
  const { suite, subjects, servers, operations, rounds, warmUpMs = 1_000 } = comparison
  const allParticipants: Participant[] = []
  for (const [environment, address] of Object.entries(servers)) {
    const {
      url,
      token = '',
      process: server = null,
    } = typeof address === 'string' ? { url: address } : address
    for (const [subject, file] of Object.entries(subjects)) {
      const child = fork(new URL('subject-process.ts', import.meta.url), [file, url, token], {
        execArgv: ['--conditions=@batonsql/source', '--no-warnings'],
      })
      const [supported] = (await once(child, 'message')) as [readonly string[]]
      allParticipants.push({ subject, environment, process: child, server, operations: supported })
    }
  }
  const [baseline = ''] = Object.keys(subjects)
  const measurements: Measurement[] = []
  for (const operation of operations) {
    const participants = allParticipants.filter((participant) =>
      participant.operations.includes(operation.name),
    )
    const samples = new Map<Participant, Sample[]>(participants.map((participant) => [participant, []]))
    const isOurs = ({ subject }: Participant): boolean => subject === baseline || subject.startsWith('baton')
    const getCount = (participant: Participant): number =>
      isOurs(participant) ? operation.count : Math.max(1, Math.ceil(operation.count / 5))
    for (const participant of participants) {
      const warmUpEnd = performance.now() + warmUpMs
      do await measure(participant, operation, getCount(participant))
      while (performance.now() < warmUpEnd)
    }
    for (let round = 0; round < rounds; round++) {
      for (const participant of round % 2 === 0 ? participants : participants.toReversed())
        samples.get(participant)?.push(await measure(participant, operation, getCount(participant)))
    }
    for (const participant of participants) {
      const { subject, environment } = participant
      const baseParticipant = participants.find(
        (candidate) => candidate.subject === baseline && candidate.environment === environment,
      )
      for (const [unit, getMs] of [
        ['µs', ({ wallMs }: Sample) => wallMs],
        ['client CPU µs', ({ cpuMs }: Sample) => cpuMs],
        ['server CPU µs', ({ serverCpuMs }: Sample) => serverCpuMs],
      ] as const) {
        if (unit === 'server CPU µs' && participant.server === null) continue
        const getValues = (source: Participant): number[] =>
          (samples.get(source) ?? []).map(
            (sample) => (getMs(sample) * 1000) / getCount(source) / (operation.itemCount ?? 1),
          )
        const goal = operation.goals?.[`${subject} @ ${environment}, ${unit}`]
        const labels = { suite, operation: operation.title, environment, subject, unit, baseline, goal }
        measurements.push(
          toMeasurement(labels, getValues(participant), getValues(baseParticipant ?? participant)),
        )
      }
    }
  }
  for (const { process: child } of allParticipants) child.send('close')
  return measurements
}

interface Sample extends Figures {
  /** CPU time of the server's process; NaN unless it is in `servers/`. */
  readonly serverCpuMs: number
}

async function measure(
  { process: child, server, ...participant }: Participant,
  { name, inFlight = 1 }: Operation,
  count: number,
): Promise<Sample> {
  const cpuMsBefore = await getCpuMs(server)
  child.send({ operation: name, count, inFlight } satisfies Task)
  const [figures] = (await once(child, 'message')) as [Figures | { error: string }]
  if ('error' in figures)
    throw new Error(`${participant.subject} on ${participant.environment}, ${name}: ${figures.error}`)
  return { ...figures, serverCpuMs: (await getCpuMs(server)) - cpuMsBefore }
}

/** Returns the CPU time that a process from `servers/` has used so far. */
async function getCpuMs(server: ChildProcess | null): Promise<number> {
  if (server === null) return Number.NaN
  server.send('cpu')
  const [{ user, system }] = (await once(server, 'message')) as [NodeJS.CpuUsage]
  return (user + system) / 1_000
}
