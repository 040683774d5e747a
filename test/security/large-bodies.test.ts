import { describe, expect, test } from 'vitest'
import { AttackedServer, BACKENDS } from './attacked-server.ts'

const AUTOCOMMIT = { type: 'get_autocommit' }
const CLOSE = { type: 'close' }
const repeat = (item: object, count: number): string =>
  Array.from({ length: count }, () => JSON.stringify(item)).join()

describe.each(BACKENDS)('%s', (backend) => {
  test('bodies of many small items are rejected while they are received, and others are handled', async () => {
    await using attacked = await AttackedServer.start({ backend, auth: true })
    const headers = await attacked.headers('app', 'read-only')
    const send = (requests: string) =>
      attacked.post('/app/v3/pipeline', `{"requests":[${requests}]}`, headers)
    const args = `{"type":"execute","stmt":{"sql":"select 1","args":[${repeat({ type: 'null' }, 300_000)}]}}`
    for (const requests of [
      repeat(AUTOCOMMIT, 300_000),
      args,
      '['.repeat(600_000),
      `"${'a'.repeat(65 * 1_024 ** 2)}"`,
    ]) {
      expect(await send(requests)).toMatchObject({ status: 413 })
      expect(await send(JSON.stringify(CLOSE))).toMatchObject({ status: 200 })
    }
  })

  test('a batch of 100,000 steps and a long text are accepted, again and again', async () => {
    await using attacked = await AttackedServer.start({ backend, auth: false })
    const steps = repeat({ stmt: { sql: 'select 1' } }, 100_000)
    const bodies = [
      `{"type":"batch","batch":{"steps":[${steps}]}}`,
      JSON.stringify({ type: 'sequence', sql: `select '${'a'.repeat(4_000_000)}'` }),
    ]
    for (const round of [1, 2, 3, 4]) {
      for (const body of bodies) {
        const { status } = await attacked.post(
          '/app/v3/pipeline',
          `{"requests":[${body},${JSON.stringify(CLOSE)}]}`,
        )
        expect([round, status]).toEqual([round, 200])
      }
    }
  })
})
