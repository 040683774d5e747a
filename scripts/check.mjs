// Runs every check except the tests, one after another, and lists those that failed, with the remedies. Arguments select steps.
import { spawnSync } from 'node:child_process'

/** What to do when a step has failed and its own output does not say so. */
const REMEDIES = {
  format: 'npm run format formats the code',
  words: 'use another word, or the full name of the package; scripts/words.mjs has the list',
  imports: 'scripts/check-imports.mjs has the layers; CONTRIBUTING.md, rule 2, has the reasons',
  pages: 'npm run pages writes them; site/pages.mjs lists the pages',
  'public API': 'node scripts/public-api.mjs writes the files; read their diff as a user would',
  'timed tests': 'hold a lock, count, or wait for an event instead of measuring time (test/README.md)',
  unused: 'delete what is unused; knip.json lists what is used in ways that knip cannot see',
}

const STEPS = [
  ['format', 'biome', ['check', '.']],
  ['types', 'tsc', ['-p', 'tsconfig.json']],
  ['types of drizzle 1', 'tsc', ['-p', 'test/adapters/drizzle-1/tsconfig.json']],
  ['types of the inspector', 'tsc', ['-p', 'internal/inspector/tsconfig.json']],
  [
    'types of the Next.js example',
    'tsc',
    [
      '-p',
      'examples/nextjs-route-handler/tsconfig.json',
      '--customConditions',
      '@batonsql/source',
      '--allowImportingTsExtensions',
    ],
  ],
  ['lint', 'oxlint', ['--type-aware', '--deny-warnings']],
  ['imports', process.execPath, ['scripts/check-imports.mjs']],
  ['words', process.execPath, ['scripts/words.mjs']],
  [
    'pages',
    process.execPath,
    ['--conditions=@batonsql/source', '--no-warnings', 'scripts/pages.ts', '--check'],
  ],
  ['fixes of SQLite', process.execPath, ['scripts/sqlite-fixes.mjs']],
  ['timed tests', process.execPath, ['scripts/timed-tests.mjs']],
  ['build', 'turbo', ['run', 'build', '--output-logs=errors-only']],
  ['built command', process.execPath, ['packages/cli/dist/cli.js', '--version']],
  // after the build: the built declarations must work with every version of Kysely
  ['types of kysely 0.28', 'tsc', ['-p', 'test/adapters/kysely-versions/tsconfig.0.28.json']],
  ['types of kysely 0.30', 'tsc', ['-p', 'test/adapters/kysely-versions/tsconfig.0.30.json']],
  ['types of works-with tests', 'tsc', ['-p', 'test/adapters/works-with/tsconfig.json']],
  // after the build: it loads the test configuration, which imports one of our packages
  ['unused', 'knip', []],
  ['exports', 'turbo', ['run', 'check', '--output-logs=errors-only']],
  ['public API', process.execPath, ['scripts/public-api.mjs', '--check']],
  ['size', process.execPath, ['scripts/size.mjs']],
]

const requestedSteps = process.argv.slice(2)
const failedSteps = []
for (const [name, command, args] of STEPS) {
  if (requestedSteps.length > 0 && !requestedSteps.includes(name)) continue
  const startedAt = performance.now()
  const { status } = spawnSync(command, args, { stdio: 'inherit' })
  console.log(
    `${status === 0 ? 'ok    ' : 'FAILED'} ${name} (${((performance.now() - startedAt) / 1000).toFixed(1)} s)`,
  )
  if (status !== 0) failedSteps.push(name)
}
if (failedSteps.length > 0) {
  for (const name of failedSteps)
    console.error(`check failed: ${name}${REMEDIES[name] ? `: ${REMEDIES[name]}` : ''}`)
  process.exit(1)
}
