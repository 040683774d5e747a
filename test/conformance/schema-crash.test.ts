// A migration whose server is killed in the middle goes on at the next start, and each database has it once.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { query } from './wire.ts'

const ROUNDS = Number(process.env['CRASH_ROUNDS'] ?? 2)
/** When the server is killed, in ms after the migration was sent. */
const LATEST_KILL_MS = 500

interface Served {
  readonly url: string
  readonly names: readonly string[]
}

async function serve(directory: string): Promise<{ child: ChildProcess; served: Served }> {
  const program = fileURLToPath(new URL('programs/schema-server.ts', import.meta.url))
  const child = fork(program, [directory], { execArgv: ['--conditions=@batonsql/source', '--no-warnings'] })
  const [served] = (await once(child, 'message')) as [Served]
  return { child, served }
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

interface Jobs {
  readonly migrations: readonly { readonly job_id: number; readonly status: string }[]
}

test('kill -9 in the middle of migrations', { timeout: 120_000 }, async () => {
  const directory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  let { child, served } = await serve(directory)
  onTestFinished(async () => {
    await kill(child)
    await rm(directory, { recursive: true, force: true })
  })
  await query(`${served.url}/parent`, 'CREATE TABLE log(round)')
  for (let round = 0; round < ROUNDS; round += 1) {
    // not twice by accident: a row that is there already would show
    const sent = query(`${served.url}/parent`, `INSERT INTO log VALUES (${round})`).then(
      () => true,
      () => false,
    )
    await sleep(Math.random() * LATEST_KILL_MS)
    await kill(child)
    const isAcknowledged = await sent
    ;({ child, served } = await serve(directory))
    const jobs = async (): Promise<Jobs> =>
      (await (await fetch(`${served.url}/parent/v1/jobs`)).json()) as Jobs
    await expect
      .poll(async () => (await jobs()).migrations[0]?.status, { timeout: 20_000 })
      .toBe('RunSuccess')
    const counts = await Promise.all(
      served.names
        .filter((name) => name !== 'default')
        .map((name) => query(`${served.url}/${name}`, `SELECT count(*) FROM log WHERE round = ${round}`)),
    )
    const [first] = counts
    expect(counts, `round ${round}`).toEqual(counts.map(() => first))
    if (isAcknowledged) expect(first).toEqual([['1']])
  }
})
