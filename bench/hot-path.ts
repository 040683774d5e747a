// How fast is the hot path, beside the physical limit and beside peers? Subjects take turns within each round, on one
// server, and what counts is the ratio to raw undici in the same round.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createClient } from '@batonsql/core'
import type { Figures, Task } from './worker.ts'

const SUBJECTS = ['undici', 'baton', 'libsql-client', 'serverless'] as const
type SubjectName = (typeof SUBJECTS)[number]

const QUESTIONS: readonly (Task & {
  readonly title: string
  readonly figure: 'speed' | 'cpu'
  readonly target: string
})[] = [
  {
    question: 'sequential',
    count: 1_000,
    title: 'sequential SELECT, speed',
    figure: 'speed',
    target: '>= 0.90',
  },
  { question: 'concurrent', count: 3_000, title: '64 in flight, speed', figure: 'speed', target: '>= 0.85' },
  {
    question: 'transaction',
    count: 400,
    title: 'transaction of three statements, speed',
    figure: 'speed',
    target: '>= 0.90',
  },
  {
    question: 'rows',
    count: 30,
    title: '10,000 rows x 6, client CPU a row',
    figure: 'cpu',
    target: '<= 1.40',
  },
]

export interface HotPathResult {
  readonly title: string
  readonly target: string
  /** Median over the rounds of subject / raw undici. */
  readonly ratio: Readonly<Record<SubjectName, number>>
  /** Median per operation (row, for the last question) in microseconds: wall time and client CPU. */
  readonly wallMicros: Readonly<Record<SubjectName, number>>
  readonly cpuMicros: Readonly<Record<SubjectName, number>>
}

async function prepare(url: string): Promise<void> {
  await using db = createClient({ url })
  const count = (n: number): string =>
    `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${n})`
  await db.batch([
    'drop table if exists item',
    'drop table if exists account',
    'drop table if exists wide',
    'create table item (id integer primary key, name text)',
    `${count(1_000)} insert into item select i, 'item number ' || i from n`.replace(
      /^(with.*\)) insert into item/,
      'insert into item $1',
    ),
    'create table account (id integer primary key, cents integer)',
    `insert into account ${count(1_000)} select i, 100000 from n`,
    'create table wide (a integer, b text, c real, d blob, e text, f integer)',
    `insert into wide ${count(10_000)} select i, 'name of row ' || i, i * 1.25, randomblob(32), null, 9007199254740993 + i from n`,
  ])
}

export async function measureHotPath(url: string, rounds: number): Promise<HotPathResult[]> {
  await prepare(url)
  const workers = new Map<SubjectName, ChildProcess>()
  for (const name of SUBJECTS) {
    const worker = fork(new URL('worker.ts', import.meta.url), [name, url], {
      execArgv: ['--conditions=@batonsql/source', '--expose-gc', '--no-warnings'],
    })
    await once(worker, 'message')
    workers.set(name, worker)
  }
  /** Figures for one operation. Peers do fewer: their ratios are far from 1, and a run would take half an hour. */
  const run = async (name: SubjectName, question: Task['question'], full: number): Promise<Figures> => {
    const count = name === 'undici' || name === 'baton' ? full : Math.ceil(full / 5)
    const worker = workers.get(name) as ChildProcess
    worker.send({ question, count } satisfies Task)
    const [figures] = (await once(worker, 'message')) as [Figures | { error: string }]
    if ('error' in figures) throw new Error(`${name}: ${figures.error}`)
    return { wallMs: figures.wallMs / count, cpuMs: figures.cpuMs / count }
  }
  const results: HotPathResult[] = []
  for (const { title, target, figure, question, count } of QUESTIONS) {
    const samples = new Map<SubjectName, Figures[]>(SUBJECTS.map((name) => [name, []]))
    for (const name of SUBJECTS) await run(name, question, count * 2)
    for (let round = 0; round < rounds; round++) {
      const order = round % 2 === 0 ? SUBJECTS : SUBJECTS.toReversed()
      for (const name of order) samples.get(name)?.push(await run(name, question, count))
    }
    results.push(summarize(title, target, figure, samples, question === 'rows' ? 10_000 : 1))
  }
  for (const worker of workers.values()) worker.send('close')
  return results
}

function summarize(
  title: string,
  target: string,
  figure: 'speed' | 'cpu',
  samples: ReadonlyMap<SubjectName, readonly Figures[]>,
  perCall: number,
): HotPathResult {
  const floor = samples.get('undici') as readonly Figures[]
  const each = (value: (own: Figures, floor: Figures) => number): Record<SubjectName, number> =>
    Object.fromEntries(
      SUBJECTS.map((name) => [
        name,
        median((samples.get(name) ?? []).map((own, at) => value(own, floor[at] as Figures))),
      ]),
    ) as Record<SubjectName, number>
  return {
    title,
    target,
    ratio: each((own, floor) => (figure === 'speed' ? floor.wallMs / own.wallMs : own.cpuMs / floor.cpuMs)),
    wallMicros: each((own) => (own.wallMs * 1000) / perCall),
    cpuMicros: each((own) => (own.cpuMs * 1000) / perCall),
  }
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return (
    ((sorted[Math.floor((sorted.length - 1) / 2)] ?? 0) + (sorted[Math.ceil((sorted.length - 1) / 2)] ?? 0)) /
    2
  )
}
