/*
 * Checks whether the tests detect small mistakes: makes them one by one in a package (`--package`, core by default), in copies of
 * the repository, and runs the tests of the package there; for core, the simulation first. `--count` sets the number of mistakes,
 * `--seed` their selection, which draws from each folder of the package in turn; `--skip N` omits the first N; `--only TEXT`
 * selects only files whose path contains the text. `--seconds` limits the simulation of each, `--parallel` sets how many run at
 * once.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { cp, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { seeded } from '../../support/random.ts'
import { findMutations, type Mutation } from './mutations.ts'
import { PACKAGES } from './packages.ts'

const { values } = parseArgs({
  options: {
    package: { type: 'string', default: 'core' },
    count: { type: 'string', default: '120' },
    seed: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '60' },
    parallel: { type: 'string', default: '2' },
    skip: { type: 'string', default: '0' },
    only: { type: 'string', default: '' },
  },
})

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const chosenPackage = PACKAGES[values.package]
if (!chosenPackage) throw new TypeError(`--package must be one of ${Object.keys(PACKAGES).join(', ')}`)
const { files = /^/, isSimulated = false, tests } = chosenPackage
const FOLDER = join(
  existsSync(join(ROOT, 'packages', values.package)) ? 'packages' : 'internal',
  values.package,
)
/** Folders that the tests do not need. */
const EXCLUDED_FOLDERS = ['.git', 'dist', 'bench', 'site']
/** Maximum time that the simulation takes in addition to the search itself. */
const MAX_START_MS = 30_000
/** Long enough for the slowest tests on a busy machine; a mutation that makes them hang is detected after this time. */
const TESTS_TIMEOUT_MS = 300_000

/** What detected a mutation: the simulation, a test project, or the time limit of a test project. */
type Detection = string

const SURVIVED = 'survived'

const children = new Set<ChildProcess>()
/** Removed at the end. */
const folders: string[] = []
process.on('exit', () => {
  for (const child of children) killGroup(child)
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

/** A temporary directory for the tests, removed at the end because killed tests leave files behind. */
const temporaryDirectory = await mkdtemp(join(tmpdir(), 'bm-'))
folders.push(temporaryDirectory)

/** Kills a program and its children, for example the servers that tests have started. */
function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // all have exited
  }
}

/** Whether the tests run without a mutation; their output is then shown. */
let isBaseline = true

/** Runs a program. @returns whether it succeeded, failed, or was killed at its time limit */
function run(args: readonly string[], cwd: string, ms: number): Promise<'ok' | 'failed' | 'timed out'> {
  return new Promise((resolve) => {
    const env = { ...process.env, TMPDIR: temporaryDirectory, NODE_OPTIONS: '--conditions=@batonsql/source' }
    const stdio = isBaseline ? 'inherit' : 'ignore'
    const child = spawn(process.execPath, args, { cwd, env, stdio, detached: true })
    children.add(child)
    const timer = setTimeout(() => killGroup(child), ms)
    child.on('close', (status) => {
      clearTimeout(timer)
      killGroup(child)
      children.delete(child)
      if (status === null) resolve('timed out')
      else resolve(status === 0 ? 'ok' : 'failed')
    })
  })
}

/** Copies the repository to a separate folder, in which mutations are made. */
async function copyRepository(): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'baton-mutant-'))
  folders.push(copy)
  const modules = join(ROOT, 'node_modules')
  const filter = (path: string): boolean => path !== modules && !EXCLUDED_FOLDERS.includes(basename(path))
  await cp(ROOT, copy, { recursive: true, verbatimSymlinks: true, filter })
  await symlink(modules, join(copy, 'node_modules'))
  return copy
}

async function detect(copy: string, seed: number): Promise<Detection> {
  if (isSimulated) {
    const seconds = Number(values.seconds)
    const time = ['--minutes', String(seconds / 60), '--histories', '1000000']
    const simulation = ['test/generated/simulation/main.ts', '--first', '--seed', String(seed), ...time]
    if ((await run(simulation, copy, seconds * 1_000 + MAX_START_MS)) !== 'ok') return 'simulation'
  }
  for (const [project, ...paths] of tests) {
    const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--configLoader', 'native', '--bail', '1']
    const outcome = await run([...vitest, '--project', project, ...paths], copy, TESTS_TIMEOUT_MS)
    if (outcome !== 'ok') return outcome === 'failed' ? project : `${project} timed out`
  }
  return SURVIVED
}

async function tryMutation(copy: string, mutation: Mutation, seed: number): Promise<Detection> {
  const path = join(copy, FOLDER, mutation.file)
  // read from the copy, because the package itself may be edited in the meantime
  const text = await readFile(path, 'utf8')
  await writeFile(path, text.slice(0, mutation.start) + mutation.replacement + text.slice(mutation.end))
  try {
    return await detect(copy, seed)
  } finally {
    await writeFile(path, text)
  }
}

/** Returns `--count` mutations, in an order determined by the seed: one from each folder, then another from each, and so on. */
function sample(mutations: readonly Mutation[], random: () => number): Mutation[] {
  const folders = [...Map.groupBy(mutations, ({ file }) => dirname(file)).values()]
  const selected: Mutation[] = []
  while (selected.length < Number(values.count) && folders.some((remaining) => remaining.length > 0))
    for (const remaining of folders)
      selected.push(...remaining.splice(Math.floor(random() * remaining.length), 1))
  return selected.slice(Number(values.skip), Number(values.count))
}

const mutations = findMutations(join(ROOT, FOLDER), files).filter(({ file }) => file.includes(values.only))
const selection = sample(mutations, seeded(Number(values.seed)))
const copies = await Promise.all(Array.from({ length: Number(values.parallel) }, copyRepository))
const detections = new Map<Mutation, Detection>()
const baseline = await detect(copies[0] as string, 1)
isBaseline = false
if (baseline !== SURVIVED) throw new Error(`the tests fail without a mutation: ${baseline}`)
console.log(`${selection.length} of ${mutations.length} mutations, seed ${values.seed}`)
const describe = ({ file, line, description }: Mutation): string =>
  `${file}:${line} ${description.replace(/\s+/g, ' ').slice(0, 100)}`
const queue = [...selection]
const runWorker = async (copy: string): Promise<void> => {
  for (let mutation = queue.shift(); mutation; mutation = queue.shift()) {
    const startedAt = performance.now()
    const detection = await tryMutation(copy, mutation, 1 + detections.size)
    detections.set(mutation, detection)
    const seconds = ((performance.now() - startedAt) / 1_000).toFixed(0)
    console.log(`${detection} (${seconds} s): ${describe(mutation)}`)
  }
}
await Promise.all(copies.map(runWorker))
const counts = new Map<Detection, number>()
for (const detection of detections.values()) counts.set(detection, (counts.get(detection) ?? 0) + 1)
const survivors = selection.filter((mutation) => detections.get(mutation) === SURVIVED)
for (const mutation of survivors) console.log(`survived: ${describe(mutation)}`)
const caught = detections.size - survivors.length
const breakdown = Array.from(counts, ([detection, count]) => `${detection} ${count}`).join(', ')
console.log(`mutations of ${values.package}: ${caught} of ${detections.size} caught (${breakdown})`)
