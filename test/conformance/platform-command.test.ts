import { startLocalServer } from '@batonsql/local-server'
import { afterAll, expect, test } from 'vitest'
import { runBaton } from '../targets/baton-command.ts'

const server = await startLocalServer({ platform: {} })
afterAll(() => server.close())
const platform = server.platform as NonNullable<typeof server.platform>

test('baton databases and baton token, with the platform API', { timeout: 60_000 }, async () => {
  const env = { BATON_API_URL: platform.url, BATON_API_TOKEN: platform.token }
  const api = (...args: string[]) => runBaton(args, { env })

  const created = await api('databases', 'create', 'app')
  expect([created.code, created.errors]).toEqual([0, ''])
  const url = created.output.trim()
  const listed = await api('databases', 'list', '--json')
  expect(JSON.parse(listed.output)).toContainEqual({ name: 'app', group: 'default', url })
  expect((await api('databases', 'list')).output).toMatch(new RegExp(`^app +default +${url}$`, 'm'))

  const { output: token } = await api('token', 'create', 'app', '--read-only', '--expiration', '1h')
  const read = await runBaton(['sql', url, 'select 1 as one'], { env: { TURSO_AUTH_TOKEN: token.trim() } })
  expect([read.code, read.output]).toEqual([0, 'one\n---\n  1\n'])
  const write = await runBaton(['sql', url, 'create table t (a)'], {
    env: { TURSO_AUTH_TOKEN: token.trim() },
  })
  expect([write.code, write.errors]).toEqual([1, expect.stringMatching(/HTTP 403|BLOCKED/)])

  const unsure = await api('databases', 'destroy', 'app')
  expect([unsure.code, unsure.errors]).toEqual([2, expect.stringContaining('--yes')])
  expect(await api('databases', 'destroy', 'app', '--yes')).toEqual({
    code: 0,
    output: 'app is deleted\n',
    errors: '',
  })
  const gone = await api('databases', 'destroy', 'app', '--yes')
  expect([gone.code, gone.output]).toEqual([1, ''])

  const wrongToken = await api('databases', 'list', '--token', 'x')
  expect([wrongToken.code, wrongToken.output]).toEqual([1, ''])
  const nowhere = await runBaton(['databases', 'list'], { env: { BATON_API_TOKEN: 'x' } })
  expect([nowhere.code, nowhere.errors]).toEqual([2, expect.stringContaining('--api-url')])
  const noToken = await runBaton(['databases', 'list'], { env: { BATON_API_URL: platform.url } })
  expect([noToken.code, noToken.errors]).toEqual([2, expect.stringContaining('--token')])
})
