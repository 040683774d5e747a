// Runs before `npm pack`, `npm publish` and pnpm's: what is packed is what the sources say. Under turbo they are built.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

if (process.env.TURBO_HASH === undefined) {
  const task = fileURLToPath(new URL('task.mjs', import.meta.url))
  // what `npm pack` prints is the name of the file
  const { status } = spawnSync(
    process.execPath,
    [task, 'turbo', 'run', 'build', '--output-logs=errors-only'],
    {
      stdio: ['ignore', 2, 2],
    },
  )
  process.exitCode = status ?? 1
}
