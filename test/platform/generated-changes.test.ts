// Databases, replicas and access that several clients change while others use them: no change fails because of another one.
import { expect, inject, test } from 'vitest'
import { pick, SEED, seeded } from '../support/random.ts'
import { Harness, sql } from './platform-harness.ts'

const CLIENT_COUNT = 6
const CALL_COUNT = Number(process.env['GENERATED_CHANGES'] ?? 80)
const NAMES = ['a', 'b', 'c']
/** A write of about a second: libsql-server is restarted if it is running when it is no longer permitted. */
const LONG_WRITE = `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000000)
  INSERT INTO t SELECT n FROM c WHERE n < 0`
const STATEMENTS = [
  'CREATE TABLE IF NOT EXISTS t (a)',
  'INSERT INTO t VALUES (1)',
  'SELECT count(*) FROM t',
  LONG_WRITE,
]
const LOCATION = 'groups/default/locations/fra'

test(`no change fails because of another one (TEST_SEED=${SEED})`, async () => {
  const harness = await Harness.forTest()
  const tokens = new Map<string, string>()
  const failures: unknown[] = []
  const change = async (method: string, path: string, body?: object) => {
    const { status, body: response } = await harness.sendRequest(method, path, { ...(body && { body }) })
    // 501: the snapshot was removed, and other times are not supported
    if (status >= 500 && status !== 501) failures.push([method, path, body, response])
    return response
  }
  const runClient = async (random: () => number): Promise<void> => {
    const name = pick(random, NAMES)
    const path = `databases/${name}`
    const configure = (setting: string) =>
      change('PATCH', `${path}/configuration`, { [setting]: random() < 0.3 })
    const use = async () => {
      const host = (await harness.sendRequest('GET', path)).body.database?.Hostname
      const token = tokens.get(name)
      if (host === undefined || token === undefined) return
      const instance = random() < 0.5 ? host : host.replace(/(?=\w+$)/, 'fra_')
      await sql(instance, token, pick(random, STATEMENTS), { keepOpen: random() < 0.3 })
    }
    const group = pick(random, ['default', 'g'])
    const seed = { type: 'database', name: pick(random, NAMES) }
    const snapshot = `${path}/snapshots/s`
    const actions: (() => Promise<unknown>)[] = [
      () => change('POST', 'databases', { name, group }),
      () => change('POST', 'databases', { name, group, seed }),
      async () => tokens.set(name, (await change('POST', `${path}/auth/tokens`)).jwt),
      () => configure('block_reads'),
      () => configure('block_writes'),
      () => change('GET', `${path}/${pick(random, ['usage', 'stats'])}`),
      ...Array.from({ length: 10 }, () => use),
    ]
    const rare = [
      () => change('DELETE', path),
      () => change('POST', `${path}/auth/rotate`),
      () => change('POST', `${path}/transfer`, { org: 'local', group }),
      () => change('POST', `${path}/snapshots`, { name: 's' }),
      async () => {
        const { snapshots: [first] = [] } = await change('GET', `databases/${seed.name}/snapshots`)
        await change('POST', 'databases', { name, group, seed: { ...seed, timestamp: first?.created_at } })
      },
      () => change('POST', `${snapshot}/restore`),
      () => change('DELETE', snapshot),
      () => change('POST', 'groups', { name: 'g', location: 'local' }),
      () => change('DELETE', 'groups/g'),
      // only libsql-server has replicas
      ...(inject('target') === 'sqld'
        ? [() => change('POST', LOCATION), () => change('DELETE', LOCATION)]
        : []),
    ]
    await (random() < 0.4 ? pick(random, rare) : pick(random, actions))()
  }
  await Promise.all(
    Array.from({ length: CLIENT_COUNT }, async (_, client) => {
      const random = seeded(SEED + client)
      for (let call = 0; call < CALL_COUNT; call += 1) await runClient(random)
    }),
  )
  expect(failures).toEqual([])
})
