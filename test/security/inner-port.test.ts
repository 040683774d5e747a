import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close, execute } from '../server/wire.ts'
import { AttackedServer, KINDS } from './attacked-server.ts'

/** The kinds with a libsql-server behind the gateway. Any program on this machine can connect to its port. */
const SQLD_KINDS = KINDS.filter(({ backend }) => backend === 'sqld')

describe.skipIf(process.platform !== 'linux').each(SQLD_KINDS)('the port behind the gateway: %o', (kind) => {
  let attacked: AttackedServer
  let ports: { readonly data: string; readonly admin: string }
  let id: string

  beforeAll(async () => {
    attacked = await AttackedServer.start(kind)
    id = attacked.server.databaseId('app')
    expect(
      (await attacked.post('/app/v3/pipeline', createPipeline('SELECT 42'), await attacked.headers())).status,
    ).toBe(200)
    ports = await readPorts(join(attacked.directory, 'data/sqld'))
  })
  afterAll(() => attacked[Symbol.asyncDispose]())

  async function sendRequest(headers: Record<string, string>, sql: string, path = '/v3/pipeline') {
    const body = JSON.stringify(createPipeline(sql))
    const response = await fetch(`http://${ports.data}${path}`, { method: 'POST', headers, body })
    return { status: response.status, text: await response.text() }
  }

  test('accepts neither clients’ tokens nor requests without a token', async () => {
    const victimFile = join(attacked.directory, 'written')
    const file = join(attacked.directory, 'data/registry.db')
    const headersForDatabase = { 'x-namespace-bin': Buffer.from(id).toString('base64').replace(/=+$/, '') }
    const tokens = [{}, await attacked.headers(), await attacked.headers('app', 'read-only')]
    for (const token of tokens) {
      for (const sql of [
        'SELECT 42',
        `SELECT hex(readfile('${file}'))`,
        `SELECT writefile('${victimFile}', 1)`,
      ]) {
        const origin = { origin: 'https://evil.example' }
        for (const headers of [
          { ...headersForDatabase, ...token },
          { ...headersForDatabase, ...token, ...origin },
        ])
          expect(await sendRequest(headers, sql)).toMatchObject({ status: 401 })
        expect([401, 404]).toContain((await sendRequest(token, sql, `/dev/${id}/v3/pipeline`)).status)
      }
      for (const path of ['/dump', '/beta/listen?table=t', '/v1/jobs']) {
        const response = await fetch(`http://${ports.data}${path}`, {
          headers: { ...headersForDatabase, ...token },
        })
        expect([path, response.status]).toEqual([path, 401])
      }
    }
    await expect(stat(victimFile)).rejects.toThrow('ENOENT')
  })

  test('rejects clients’ tokens and requests without a token on the admin API, too', async () => {
    for (const headers of [{}, await attacked.headers(), { authorization: 'basic' }]) {
      const url = `http://${ports.admin}/v1/namespaces/${id}/config`
      expect((await fetch(url, { headers })).status).toBe(401)
    }
  })
})

function createPipeline(sql: string): object {
  return { requests: [execute(sql), close] }
}

/** Finds the first server whose data is in a folder, and reads its ports from the arguments of its process. */
async function readPorts(folder: string): Promise<{ data: string; admin: string }> {
  const [group = ''] = await readdir(folder)
  const { pid } = JSON.parse(await readFile(join(folder, group, 'sqld.pid'), 'utf8')) as { pid: number }
  const words = (await readFile(`/proc/${pid}/cmdline`, 'latin1')).split('\0')
  const getArgument = (word: string): string => words[words.indexOf(word) + 1] ?? ''
  return { data: getArgument('--http-listen-addr'), admin: getArgument('--admin-listen-addr') }
}
