// Compares databases for tests: Baton's `useDatabase`, copies of a file for better-sqlite3, clones of PGlite. Measures the first test
// of a process, further tests, and a run of vitest with many files. The template has 100 migrations, 30 tables and 1,000 rows.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { setup, teardown } from '@batonsql/local-server/vitest'
import { median } from '../lib/statistics.ts'
import type { SubjectFigures } from './test-databases/subject.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    tests: { type: 'string', default: '300' },
    files: { type: 'string', default: '100' },
  },
})
const SUBJECTS = ['better-sqlite3', 'baton', 'baton, server of the run', 'pglite'] as const
type Subject = (typeof SUBJECTS)[number]

const subjectProgram = fileURLToPath(new URL('test-databases/subject.ts', import.meta.url))
/** Where the other libraries are installed; they are too large to be dependencies of the repository. */
const libraries = fileURLToPath(new URL('../node_modules/.cache/test-databases', import.meta.url))
const LIBRARIES = ['better-sqlite3@13.2.0', '@electric-sql/pglite@0.5.16']
const folder = mkdtempSync(join(tmpdir(), 'baton-bench-'))
const environment = { ...process.env, BENCH_LIBRARIES: libraries, BENCH_FOLDER: folder, NODE_OPTIONS: '' }

/** Runs a program in a process of its own. @returns what it prints */
function run(args: readonly string[], variables: NodeJS.ProcessEnv = {}): string {
  const env = { ...environment, BATON_TEST_SERVER: undefined, ...variables }
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env })
  if (status !== 0) throw new Error(`${args.join(' ')}\n${stdout}${stderr}`)
  return stdout
}

const serverOfRun = (subject: Subject): NodeJS.ProcessEnv =>
  subject === 'baton, server of the run' ? { BATON_TEST_SERVER: process.env['BATON_TEST_SERVER'] } : {}

function runSubject(subject: Subject, tests: number): SubjectFigures {
  const args = ['--no-warnings', subjectProgram, subject.split(',')[0] as string, String(tests)]
  return JSON.parse(run(args, serverOfRun(subject))) as SubjectFigures
}

/** Measures a run of vitest. @returns seconds */
function runVitest(subject: Subject, files: number): number {
  const project = fileURLToPath(new URL(`../.baton/test-databases`, import.meta.url))
  rmSync(project, { recursive: true, force: true })
  mkdirSync(project, { recursive: true })
  const text = `import { test } from 'vitest'
import { open } from ${JSON.stringify(subjectProgram)}
const database = await open(${JSON.stringify(subject.split(',')[0])}, await import('vitest'))
for (let number = 0; number < 10; number++) test(\`\${number}\`, () => database.runTest())\n`
  // as if the packages were in node_modules, which vitest does not transform
  const config = 'export default { test: { server: { deps: { external: [/[/]dist[/]/] } } } }'
  writeFileSync(join(project, 'vitest.config.js'), config)
  for (let file = 0; file < files; file++) writeFileSync(join(project, `${file}.test.ts`), text)
  const vitest = join(createRequire(import.meta.url).resolve('vitest/package.json'), '../vitest.mjs')
  const startedAt = performance.now()
  run([vitest, 'run', '--root', project, '--silent', '--reporter=dot'], serverOfRun(subject))
  rmSync(project, { recursive: true })
  return (performance.now() - startedAt) / 1_000
}

function print(title: string, unit: string, figures: ReadonlyMap<Subject, readonly number[]>): void {
  const baseline = figures.get('better-sqlite3') ?? []
  for (const [subject, rounds] of figures) {
    const ratio = median(rounds.map((figure, round) => figure / (baseline[round] ?? Number.NaN)))
    const text = `${median(rounds).toFixed(2)} ${unit}`.padStart(12)
    console.log(`${title.padEnd(24)} ${subject.padEnd(26)} ${text}  ${ratio.toFixed(2)}×`)
  }
}

try {
  if (!existsSync(libraries)) {
    mkdirSync(libraries, { recursive: true })
    spawnSync('npm', ['install', '--prefix', libraries, ...LIBRARIES], { stdio: 'inherit' })
  }
  await setup()
  // makes the templates
  for (const subject of SUBJECTS) runSubject(subject, 1)
  const first = new Map(SUBJECTS.map((subject): [Subject, number[]] => [subject, []]))
  const further = new Map(SUBJECTS.map((subject): [Subject, number[]] => [subject, []]))
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const subject of SUBJECTS) {
      // in a run, the server is not idle before a test
      if (subject === 'baton, server of the run') runSubject(subject, 1)
      const figures = runSubject(subject, subject === 'pglite' ? 5 : Number(values.tests))
      first.get(subject)?.push(figures.firstMs)
      further.get(subject)?.push(figures.furtherMs)
    }
  }
  print('first test of a process', 'ms', first)
  print('each further test', 'ms', further)
  if (values.files !== '0') {
    const subjects = SUBJECTS.filter((subject) => subject !== 'pglite')
    const seconds = subjects.map((subject) => [subject, [runVitest(subject, Number(values.files))]] as const)
    print(`vitest, ${values.files} files × 10`, 's', new Map(seconds))
  }
} finally {
  await teardown()
  rmSync(folder, { recursive: true, force: true })
}
