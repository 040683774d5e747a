import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findSqld } from '@batonsql/local-server/sqld'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryDirectory } from '../server/dev-server.ts'
import { query } from '../server/wire.ts'
import { runBaton, startBaton } from '../support/baton-command.ts'

const hasSqld = await findSqld().then(
  () => true,
  () => false,
)

test.skipIf(!hasSqld)(
  'baton serve runs libsql-server with tokens, without the inspector, and its groups can have replicas',
  async () => {
    const folder = await temporaryDirectory()
    const file = join(folder, 'tokens.json')
    const child = startBaton(
      [
        'serve',
        '--data',
        join(folder, 'data'),
        '--port',
        '0',
        '--platform-port',
        '0',
        '--token-file',
        file,
        '--json',
      ],
      { XDG_RUNTIME_DIR: folder },
    )
    onTestFinished(async () => {
      const exited = once(child, 'exit')
      if (child.kill('SIGTERM')) await exited
    })
    let log = ''
    child.stderr.on('data', (part) => (log += part))
    await once(child.stdout, 'data')
    const { url, inspector, databases, platform } = JSON.parse(await readFile(file, 'utf8'))
    expect(await (await fetch(`${url}/version`)).text()).toMatch(/^sqld /)
    expect([inspector, (await fetch(`${url}/_baton`)).status]).toEqual([undefined, 404])
    const denied = await fetch(`${url}/v2/pipeline`, { method: 'POST', body: '{"requests":[]}' })
    expect(denied.status).toBe(401)
    const { token } = databases.default
    expect(await query(url, 'SELECT 1', { token })).toEqual([['1']])

    const env = { BATON_API_URL: platform.url, BATON_API_TOKEN: platform.token }
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
