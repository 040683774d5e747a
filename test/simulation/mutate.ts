/*
 * Tries whether the simulation and the unit tests of core see small mistakes: makes them one by one in copies of the package,
 * and runs first the one and then the others. `--count` says how many, `--seed` which, `--seconds` how long the simulation
 * looks for each, `--only` takes files with a text in their path.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { seeded } from '../faults/random.ts'
import { type Mutation, mutationsOf } from './mutations.ts'

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '120' },
    seed: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '60' },
    parallel: { type: 'string', default: '2' },
    only: { type: 'string', default: '' },
  },
})

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const CORE = join('packages', 'core')
const COPIED = [
  CORE,
  'packages/kysely-dialect',
  'packages/drizzle-driver',
  'test/simulation',
  'test/faults',
  'test/node_modules',
  'test/package.json',
  'package.json',
]
/** What the simulation takes at most to see that all is well again, besides the time it looks. */
const START_MS = 30_000
const UNIT_TESTS_MS = 240_000

const VITEST_CONFIG = `
const conditions = ['@batonsql/source', 'node', 'import', 'default']
export default {
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  environments: { __vitest__: { resolve: { conditions } } },
  test: { include: ['packages/core/src/**/*.test.ts'], testTimeout: 20000, bail: 1, maxWorkers: 1 },
}
`

type Verdict = 'simulation' | 'unit tests' | 'survived'

const children = new Set<ChildProcess>()
const folders: string[] = []
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

/** Runs a program. @returns whether it ended well within its time */
function isFine(args: readonly string[], cwd: string, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const env = { ...process.env, NODE_OPTIONS: '--conditions=@batonsql/source' }
    const child = spawn(process.execPath, args, { cwd, env, stdio: 'ignore' })
    children.add(child)
    const timer = setTimeout(() => child.kill('SIGKILL'), ms)
    child.on('close', (status) => {
      clearTimeout(timer)
      children.delete(child)
      resolve(status === 0)
    })
  })
}

/** Makes a copy of what is tested, in a folder of its own. */
async function makeCopy(): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'baton-mutant-'))
  folders.push(copy)
  const filter = (path: string): boolean => !/[\\/](dist|docs)$/.test(path)
  for (const path of COPIED) {
    await mkdir(join(copy, path, '..'), { recursive: true })
    await cp(join(ROOT, path), join(copy, path), { recursive: true, verbatimSymlinks: true, filter })
  }
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  await writeFile(join(copy, 'vitest.config.mjs'), VITEST_CONFIG)
  return copy
}

async function judge(copy: string, seed: number): Promise<Verdict> {
  const seconds = Number(values.seconds)
  const simulation = [
    'test/simulation/main.ts',
    '--first',
    '--seed',
    String(seed),
    '--minutes',
    String(seconds / 60),
  ]
  if (!(await isFine([...simulation, '--histories', '1000000'], copy, seconds * 1_000 + START_MS)))
    return 'simulation'
  const vitest = [
    'node_modules/vitest/vitest.mjs',
    'run',
    '--configLoader',
    'native',
    '--config',
    'vitest.config.mjs',
  ]
  return (await isFine(vitest, copy, UNIT_TESTS_MS)) ? 'survived' : 'unit tests'
}

async function tryMutation(copy: string, mutation: Mutation, seed: number): Promise<Verdict> {
  const path = join(copy, CORE, mutation.file)
  const text = await readFile(join(ROOT, CORE, mutation.file), 'utf8')
  await writeFile(path, text.slice(0, mutation.start) + mutation.replacement + text.slice(mutation.end))
  try {
    return await judge(copy, seed)
  } finally {
    await writeFile(path, text)
  }
}

/** So many of them, in an order that the seed decides. */
function sample(mutations: readonly Mutation[], random: () => number): Mutation[] {
  const left = [...mutations]
  const taken: Mutation[] = []
  while (taken.length < Number(values.count) && left.length > 0)
    taken.push(...left.splice(Math.floor(random() * left.length), 1))
  return taken
}

const all = mutationsOf(join(ROOT, CORE)).filter(({ file }) => file.includes(values.only))
const chosen = sample(all, seeded(Number(values.seed)))
const copies = await Promise.all(Array.from({ length: Number(values.parallel) }, makeCopy))
const verdicts = new Map<Mutation, Verdict>()
const untouched = await judge(copies[0] as string, 1)
if (untouched !== 'survived') throw new Error(`without a mistake the ${untouched} fails`)
console.log(`${chosen.length} of ${all.length} mutations`)
const queue = [...chosen]
const work = async (copy: string): Promise<void> => {
  for (let mutation = queue.shift(); mutation; mutation = queue.shift()) {
    const begun = performance.now()
    const verdict = await tryMutation(copy, mutation, 1 + verdicts.size)
    verdicts.set(mutation, verdict)
    const { file, line, what } = mutation
    const seconds = ((performance.now() - begun) / 1_000).toFixed(0)
    console.log(`${verdict} (${seconds} s): ${file}:${line} ${what.replace(/\s+/g, ' ').slice(0, 100)}`)
  }
}
await Promise.all(copies.map(work))
const count = (verdict: Verdict): number => [...verdicts.values()].filter((each) => each === verdict).length
const caught = count('simulation') + count('unit tests')
console.log(
  `mutations: ${caught} of ${verdicts.size} caught, ${count('simulation')} by the simulation, ${count('unit tests')} by unit tests, ${count('survived')} survived`,
)
