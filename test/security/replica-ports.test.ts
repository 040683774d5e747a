import { readdir, readFile } from 'node:fs/promises'
import http2 from 'node:http2'
import { join } from 'node:path'
import { type LocalPlatform, startLocalServer } from '@batonsql/local-server'
import { createPlatformClient } from '@batonsql/platform'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { KINDS } from './attacked-server.ts'

/** Returns the value of a command-line argument of a server. */
async function readArgument(folder: string, name: string): Promise<string> {
  const { pid } = JSON.parse(await readFile(join(folder, 'sqld.pid'), 'utf8'))
  const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0')
  return words[words.indexOf(name) + 1] ?? ''
}

/**
 * Opens the call through which a replica forwards statements, with full permissions.
 * @returns the status of the response, or `refused`
 */
async function forward(url: string, id: string, options: http2.SecureClientSessionOptions): Promise<unknown> {
  const session = http2.connect(url, { rejectUnauthorized: false, ...options })
  onTestFinished(() => session.destroy())
  return await new Promise((resolve) => {
    session.once('error', () => resolve('refused'))
    session.once('close', () => resolve('refused'))
    const request = session.request({
      ':method': 'POST',
      ':path': '/proxy.Proxy/StreamExec',
      'content-type': 'application/grpc',
      te: 'trailers',
      'x-namespace-bin': Buffer.from(id).toString('base64').replaceAll('=', ''),
      'x-proxy-authorization': '"FullAccess"',
    })
    request.once('error', () => resolve('refused'))
    request.once('response', (headers) => resolve(headers[':status']))
    request.end()
  })
}

const hasSqld = KINDS.some(({ backend }) => backend === 'sqld')

test.skipIf(process.platform !== 'linux' || !hasSqld)(
  'the ports between a primary and its replicas reject clients without the keys of the group',
  async () => {
    const directory = createTemporaryDirectory()
    await using server = await startLocalServer({ backend: 'sqld', platform: {}, dataDirectory: directory })
    const { url, token, organization } = server.platform as LocalPlatform
    const platform = createPlatformClient({ url, token, organization })
    await platform.groups.addLocation('default', 'fra')
    const id = server.databaseId('default')
    const [name = ''] = await readdir(join(directory, 'sqld'))
    const group = join(directory, 'sqld', name)
    const primary = `https://${await readArgument(group, '--grpc-listen-addr')}`
    const proxy = await readArgument(join(group, 'replicas', 'fra'), '--primary-grpc-url')
    const readPem = async (file: string) =>
      await readFile(join(group, 'replication-keys', `${file}.pem`), 'utf8')
    const [cert, key] = [await readPem('cert'), await readPem('key')]
    for (const port of [primary, proxy]) {
      expect(await forward(port, id, { cert, key })).toBe(200)
      expect(await forward(port, id, {})).toBe('refused')
      expect(await forward(port.replace('https', 'http'), id, {})).toBe('refused')
    }
  },
)
