import { expect, test } from 'vitest'
import { respond, scripted, status } from '../../test-support/scripted-server.ts'
import { HttpError, ProtocolError, SqlError } from '../base/errors.ts'
import { describe as describeStatement } from './describe.ts'
import { type Job, jobs } from './jobs.ts'

const job = (state: string, fields: object = {}): object => ({
  job_id: 2,
  status: state,
  progress: [],
  ...fields,
})

test('lists jobs, newest first', async () => {
  const body = {
    schema_version: 4,
    migrations: [{ job_id: 2, status: 'RunFailure' }, { job_id: 1, status: null }, { job_id: 0 }],
  }
  const { db, received } = await scripted((_, response) => respond(response, body))
  expect(await jobs.list(db)).toEqual({
    schemaVersion: 4,
    jobs: [
      { id: 2, status: 'RunFailure' },
      { id: 1, status: null },
      { id: 0, status: null },
    ],
  })
  expect(received[0]?.url).toBe('/v1/jobs')
})

test("reads jobs in the server's format and in the documented one", async () => {
  const states = [
    ['WaitingDryRun', 'Enqueued'],
    ['WaitingRun', 'Run'],
    ['RunSuccess', 'Success'],
    ['RunFailure', 'Failure'],
    ['DryRunSuccess', 'DryRunSuccess'],
    ['DryRunFailure', 'DryRunFailure'],
    ['Tomorrow', 'Tomorrow'],
  ]
  const allStates = states.flat()
  const { db } = await scripted(({ url }, response) =>
    respond(
      response,
      url.endsWith('/1')
        ? job('RunSuccess')
        : job('RunFailure', {
            error: 'task 3 failed',
            progress: allStates.map((state) => ({ namespace: 'n', status: state, error: 'aborted' })),
          }),
    ),
  )
  expect(await jobs.get(db, 1)).toEqual({ id: 2, status: 'RunSuccess', error: null, progress: [] })
  const { error, progress } = await jobs.get(db, 2)
  expect(error).toBe('task 3 failed')
  expect(progress.map((task) => task.status)).toEqual(states.flatMap(([, name]) => [name, name]))
  expect(progress[0]).toEqual({ database: 'n', status: 'Enqueued', error: 'aborted' })
})

test('waits until a job has finished, and reports its progress', async () => {
  const states = ['WaitingDryRun', 'DryRunSuccess', 'WaitingRun', 'RunSuccess']
  const { db } = await scripted((_, response, count) => respond(response, job(states[count - 1] as string)))
  const reportedJobs: Job[] = []
  expect(await jobs.wait(db, 2, { pollMs: 5, onProgress: (job) => reportedJobs.push(job) })).toMatchObject({
    id: 2,
  })
  expect(reportedJobs.map((job) => job.status)).toEqual(states)
})

test('a failed job rejects with the error of its statement; a failed dry run is not final', async () => {
  const { db, received } = await scripted((_, response, count) =>
    respond(response, count === 1 ? job('DryRunFailure') : job('RunFailure', { error: 'no such table: t' })),
  )
  const error = await jobs.wait(db, 2, { pollMs: 5 }).catch((error: unknown) => error)
  expect(error).toBeInstanceOf(SqlError)
  expect(error).toMatchObject({ code: 'SCHEMA_MIGRATION_ERROR', message: 'no such table: t' })
  expect(received).toHaveLength(2)
})

test('the outcome of a failed job is unknown, whatever its error says', async () => {
  const error = 'Schema migration error: migration failed'
  const { db } = await scripted((_, response) => respond(response, job('RunFailure', { error })))
  await expect(jobs.wait(db, 2)).rejects.toMatchObject({ message: error, outcome: 'unknown' })
})

test('a wait ends at its timeout, or when its signal is aborted', async () => {
  const { db } = await scripted((_, response) => respond(response, job('WaitingRun')))
  await expect(jobs.wait(db, 2, { pollMs: 10, timeoutMs: 60 })).rejects.toMatchObject({ code: 'TIMEOUT' })
  const { db: hanging } = await scripted(() => {})
  await expect(jobs.wait(hanging, 2, { timeoutMs: 60 })).rejects.toThrow(/ within \d+ ms$/)
  const stop = new AbortController()
  setTimeout(() => stop.abort('enough'), 40)
  await expect(jobs.wait(db, 2, { pollMs: 10_000, signal: stop.signal })).rejects.toBe('enough')
  const closing = jobs.wait(db, 2, { pollMs: 10_000 })
  setTimeout(() => void db.close(), 40)
  await expect(closing).rejects.toMatchObject({ code: 'CLOSED' })
})

test('rejects missing jobs, invalid ids, and responses that are not jobs', async () => {
  const { db } = await scripted(status(404, '{"error":"couldn\'t find requested migration job"}'))
  await expect(jobs.get(db, 9)).rejects.toThrow(HttpError)
  for (const id of [-1, 1.5, Number.NaN, '1' as unknown as number])
    await expect(jobs.get(db, id)).rejects.toThrow(
      /^the id of a job must be a whole number, not (-1|1\.5|NaN|a value of type string)$/,
    )
  await expect(jobs.wait(db, 1, { poll: 1 } as object)).rejects.toThrow('unknown option poll')
  for (const body of ['<html>', '{}', '[]', 'null', '{"job_id":"1"}', '{"job_id":1}']) {
    const { db: malformed } = await scripted((_, response) => respond(response, body))
    await expect(jobs.get(malformed, 1)).rejects.toThrow(ProtocolError)
    await expect(jobs.list(malformed)).rejects.toThrow(ProtocolError)
  }
})

test('describe accepts a single statement, and rejects malformed responses', async () => {
  const { db, received } = await scripted((_, response) => respond(response, '{"results":[{}]}'))
  await expect(describeStatement(db, 'select 1; select 2')).rejects.toThrow('one statement, not 2')
  await expect(describeStatement(db, ' -- nothing')).rejects.toThrow('one statement, not 0')
  expect(received).toEqual([])
  await expect(describeStatement(db, 'select 1')).rejects.toThrow(ProtocolError)
})

test('a wait in progress continues while the client is being closed', async () => {
  const requested = Promise.withResolvers<void>()
  const { db } = await scripted((_, response, count) => {
    requested.resolve()
    respond(response, job(count < 3 ? 'WaitingRun' : 'RunSuccess'))
  })
  const waiting = jobs.wait(db, 2, { pollMs: 1 })
  await requested.promise
  const closed = db.close({ drainMs: 60_000 })
  await expect(jobs.get(db, 2)).rejects.toThrow('the client is closed')
  expect(await waiting).toMatchObject({ status: 'RunSuccess' })
  await closed
})
