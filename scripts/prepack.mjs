// Runs before `npm pack`, `npm publish` and their pnpm equivalents, and builds the packages from the sources. Under turbo, they
// are already built.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

if (process.env.TURBO_HASH === undefined) {
  const task = fileURLToPath(new URL('task.mjs', import.meta.url))
  // prints to stderr, because `npm pack` prints the name of the file to stdout
  const { status } = spawnSync(
    process.execPath,
    [task, 'turbo', 'run', 'build', '--output-logs=errors-only'],
    {
      stdio: ['ignore', 2, 2],
    },
  )
  process.exitCode = status ?? 1
}
