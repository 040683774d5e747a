import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { query } from '../server/wire.ts'
import { runBaton, startBaton } from '../support/baton-command.ts'
import { hasSqld } from '../support/has-sqld.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'

/** Starts `baton serve` with a platform API for the rest of the test. */
async function startServe() {
  const folder = createTemporaryDirectory()
  const [data, file] = [join(folder, 'data'), join(folder, 'tokens.json')]
  const runtime = { XDG_RUNTIME_DIR: folder }
  const options = ['--data', data, '--port', '0', '--platform-port', '0', '--token-file', file, '--json']
  const child = startBaton(['serve', ...options], runtime)
  onTestFinished(async () => {
    const exited = once(child, 'exit')
    if (child.kill('SIGTERM')) await exited
  })
  await once(child.stdout, 'data')
  const announcement = JSON.parse(await readFile(file, 'utf8'))
  const { platform } = announcement
  const env = { ...runtime, BATON_API_URL: platform.url, BATON_API_TOKEN: platform.token }
  return { child, announcement, folder, data, env }
}

test.skipIf(!hasSqld)(
  'an exported file is restored into the group of its database, whose replicas follow, as self-hosting.md says',
  async () => {
    const { announcement, folder, data, env } = await startServe()
    const baton = async (...args: string[]): Promise<string> => {
      const { code, output, errors } = await runBaton(args, { env })
      expect([code, errors]).toEqual([0, ''])
      return output
    }
    await baton('groups', 'create', 'shop')
    await baton('groups', 'add-location', 'shop', 'fra')
    await baton('databases', 'create', 'orders', '--group', 'shop')
    const url = `${announcement.url}/orders/`
    const token = (await baton('database-tokens', 'create', 'orders')).trim()
    await query(url, 'CREATE TABLE o (a)', { token })
    await query(url, "INSERT INTO o VALUES ('kept')", { token })
    const file = join(folder, 'orders.db')
    await baton('export', 'orders', file, '--data', data)
    await baton('databases', 'destroy', 'orders', '--yes', '--data', data)

    const create = ['databases', 'create', 'orders', '--from-file', file, '--data', data]
    const wrong = await runBaton([...create, '--group', 'stores'], { env })
    expect([wrong.code, wrong.errors]).toEqual([
      1,
      'baton: group "stores" does not exist; the groups are: default, shop\n',
    ])
    const [, newToken = ''] = /token: (\S+)/.exec(await baton(...create, '--group', 'shop')) ?? []
    expect(await baton('databases', 'show', 'orders')).toMatch(/^group +shop$/m)
    expect(await query(url, 'SELECT a FROM o', { token: newToken })).toEqual([['kept']])
    const [, replica = ''] = /^fra +replica +(\S+)$/m.exec(await baton('instances', 'list', 'orders')) ?? []
    expect(await query(replica, 'SELECT a FROM o', { token: newToken })).toEqual([['kept']])
  },
)

test.skipIf(!hasSqld)(
  'baton serve runs libsql-server with tokens, without the inspector, and its groups can have replicas',
  async () => {
    const { child, announcement, env } = await startServe()
    let log = ''
    child.stderr.on('data', (part) => (log += part))
    const { url, inspector, databases } = announcement
    expect(await (await fetch(`${url}/version`)).text()).toMatch(/^sqld /)
    expect([inspector, (await fetch(`${url}/_baton`)).status]).toEqual([undefined, 404])
    const denied = await fetch(`${url}/v2/pipeline`, { method: 'POST', body: '{"requests":[]}' })
    expect(denied.status).toBe(401)
    const { token } = databases.default
    expect(await query(url, 'SELECT 1', { token })).toEqual([['1']])

    const api = async (...args: string[]) => (await runBaton(args, { env })).output
    expect(await api('locations', 'list')).toMatch(/^CODE +DESCRIPTION\n(?:.*\n)*fra +\S/)
    expect(await api('groups', 'add-location', 'default', 'fra')).toBe('added fra to default\n')
    const instances = await api('instances', 'list', 'default')
    expect(instances).toMatch(/^LOCATION +TYPE +URL\nlocal +primary +http\S+\nfra +replica +(http\S+)\n$/)
    const [, replica = ''] = /fra +replica +(http\S+)/.exec(instances) ?? []
    expect(await query(replica, 'SELECT 1', { token })).toEqual([['1']])
    expect(await api('groups', 'remove-location', 'default', 'fra')).toBe('removed fra from default\n')
    expect(await api('instances', 'list', 'default', '--json')).not.toContain('fra')
    // requests are logged by default
    expect(log).toContain('"status":401')
  },
)

test.each([
  [['serve'], 'missing --data DIR'],
  [['serve', '--data', 'd', '--auth'], 'unknown option --auth'],
  [['serve', '--data', 'd', '--backend', 'embedded'], 'unknown option --backend'],
  [['groups', 'add-location', 'default'], 'missing LOCATION'],
])('%j is rejected', async (args, message) => {
  const { code, errors } = await runBaton(args)
  expect([code, errors]).toEqual([2, expect.stringContaining(message)])
})
