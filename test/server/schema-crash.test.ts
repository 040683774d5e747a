// A migration that is interrupted by killing the server resumes at the next start, and is applied to each database once. An
// unrelated database responds regardless of the outcome, and contains every acknowledged row.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { hasSqld } from '../support/has-sqld.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { query } from './wire.ts'

/** Latest time at which the server is killed, in ms after the migration was sent: shortly after a migration ends. */
const LATEST_KILL_MS = { embedded: 500, sqld: 200 }
const ROUND_COUNTS = { embedded: 2, sqld: 6 }

type Backend = 'embedded' | 'sqld'

interface ServerInfo {
  readonly url: string
  readonly names: readonly string[]
}

async function startServer(
  directory: string,
  backend: Backend,
): Promise<{ child: ChildProcess; info: ServerInfo }> {
  const program = fileURLToPath(new URL('programs/schema-server.ts', import.meta.url))
  const execArgv = ['--conditions=@batonsql/source', '--no-warnings']
  const child = fork(program, [directory, backend], {
    execArgv,
    stdio: ['ignore', 'inherit', 'ignore', 'ipc'],
  })
  const [info] = (await once(child, 'message')) as [ServerInfo]
  return { child, info }
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

interface Jobs {
  readonly migrations: readonly { readonly job_id: number; readonly status: string }[]
}

/** Writes to a database until its server is killed. @returns the number of acknowledged writes */
async function writeUntilKilled(url: string): Promise<number> {
  for (let acknowledged = 0; ; acknowledged += 1) {
    try {
      await query(url, 'INSERT INTO log VALUES (0)')
    } catch {
      return acknowledged
    }
  }
}

async function countRows(url: string, condition: string): Promise<number> {
  const [[count] = []] = await query(url, `SELECT count(*) FROM log WHERE ${condition}`)
  return Number(count)
}

const backends: readonly Backend[] = hasSqld ? ['embedded', 'sqld'] : ['embedded']

test.each(backends)(
  'a migration interrupted by kill -9 is applied to each database once: %s',
  { timeout: 1_200_000 },
  async (backend) => {
    const directory = createTemporaryDirectory()
    let { child, info } = await startServer(directory, backend)
    onTestFinished(() => kill(child))
    await query(`${info.url}/parent`, 'CREATE TABLE log(round)')
    await query(`${info.url}/other`, 'CREATE TABLE log(round)')
    let previousCount = 0
    const rounds = Number(process.env['CRASH_ROUNDS'] ?? ROUND_COUNTS[backend])
    for (let round = 1; round <= rounds; round += 1) {
      // a statement that was applied twice would leave a duplicate row
      const acknowledgment = query(`${info.url}/parent`, `INSERT INTO log VALUES (${round})`).then(
        () => true,
        () => false,
      )
      const writes = writeUntilKilled(`${info.url}/other`)
      await sleep(Math.random() * LATEST_KILL_MS[backend])
      await kill(child)
      const [isAcknowledged, acknowledged] = [await acknowledgment, await writes]
      ;({ child, info } = await startServer(directory, backend))
      const { url, names } = info
      const rowCount = await countRows(`${url}/other`, 'true')
      // the write in flight may also have been applied
      expect(rowCount - previousCount - acknowledged, `round ${round}`).toBeGreaterThanOrEqual(0)
      expect(rowCount - previousCount - acknowledged, `round ${round}`).toBeLessThanOrEqual(1)
      previousCount = rowCount
      const getJobs = async (): Promise<Jobs> => (await (await fetch(`${url}/parent/v1/jobs`)).json()) as Jobs
      await expect
        .poll(async () => (await getJobs()).migrations[0]?.status, { timeout: 60_000 })
        .toBe('RunSuccess')
      const schemaDatabases = names.filter((name) => name === 'parent' || name.startsWith('kid-'))
      const counts = await Promise.all(
        schemaDatabases.map((name) => countRows(`${url}/${name}`, `round = ${round}`)),
      )
      const [firstCount] = counts
      expect(counts, `round ${round}`).toEqual(counts.map(() => firstCount))
      if (isAcknowledged) expect(firstCount).toBe(1)
    }
  },
)
