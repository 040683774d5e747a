import { execFile, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startLocalServer } from '@batonsql/local-server'
import { expect, inject, onTestFinished, test } from 'vitest'
import { stablePort } from '../support/stable-port.ts'

// The recipe "One machine" in docs/self-hosting.md: a proxy terminates TLS in front of both ports.

const DOMAIN = 'db.example'
const PLATFORM_HOST = 'platform.example'
const PROGRAM = fileURLToPath(new URL('tls-program.ts', import.meta.url))

/** Creates a self-signed certificate for every database and for the platform API, valid for a day. */
async function createCertificate(): Promise<{
  readonly cert: string
  readonly key: string
  readonly file: string
}> {
  const directory = await mkdtemp(join(tmpdir(), 'baton-tls-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const [keyFile, file] = [join(directory, 'key.pem'), join(directory, 'cert.pem')]
  const extension = `subjectAltName=DNS:*.${DOMAIN},DNS:${PLATFORM_HOST}`
  const options = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '1',
  ]
  const files = ['-subj', '/CN=proxy', '-addext', extension, '-keyout', keyFile, '-out', file]
  await promisify(execFile)('openssl', [...options, ...files])
  return { cert: readFileSync(file, 'utf8'), key: readFileSync(keyFile, 'utf8'), file }
}

/** Forwards a request according to its host. Drops headers that name a database, as other proxies do. */
function forward(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  ports: { database: number; platform: number },
): void {
  const isPlatform = incoming.headers.host?.startsWith(`${PLATFORM_HOST}:`) === true
  const { 'x-namespace': _, 'x-namespace-bin': __, ...headers } = incoming.headers
  const forwarded = request(
    {
      host: '127.0.0.1',
      port: isPlatform ? ports.platform : ports.database,
      method: incoming.method,
      path: incoming.url,
      headers: isPlatform ? { ...headers, host: 'localhost' } : headers,
    },
    (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers)
      outgoing.flushHeaders()
      response.on('error', () => outgoing.destroy()).pipe(outgoing)
    },
  )
  forwarded.on('error', () => outgoing.destroy())
  outgoing.on('close', () => forwarded.destroy())
  incoming.pipe(forwarded)
}

/** Runs the program, which can connect only to the proxy. @returns its output */
async function runProgram(settings: object, certificateFile: string): Promise<unknown> {
  const { NODE_OPTIONS: _, ...environment } = process.env
  const child = spawn(
    process.execPath,
    ['--conditions=@batonsql/source', PROGRAM, JSON.stringify(settings)],
    {
      env: { ...environment, NODE_EXTRA_CA_CERTS: certificateFile },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  onTestFinished(() => void child.kill('SIGKILL'))
  let [output, errors] = ['', '']
  child.stdout.on('data', (part) => (output += part))
  child.stderr.on('data', (part) => (errors += part))
  const code = await new Promise((resolve) => child.once('close', resolve))
  if (code !== 0) throw new Error(`the program exited with ${String(code)}: ${errors}`)
  return JSON.parse(output)
}

test('the platform API and each database, with its own host, work behind a TLS proxy', {
  timeout: 180_000,
}, async () => {
  const { cert, key, file } = await createCertificate()
  const port = await stablePort()
  const server = await startLocalServer({
    backend: inject('target') as 'embedded' | 'sqld',
    platform: { domain: `${DOMAIN}:${port}` },
  })
  onTestFinished(() => server.close())
  const { platform } = server
  if (platform === null) throw new Error('no platform')
  const ports = { database: server.port, platform: Number(new URL(platform.url).port) }
  const proxy = createServer({ cert, key }, (request, response) => forward(request, response, ports))
  await new Promise<void>((resolve) => proxy.listen(port, '127.0.0.1', resolve))
  onTestFinished(async () => {
    proxy.closeAllConnections()
    await new Promise((resolve) => proxy.close(resolve))
  })
  const settings = { url: `https://${PLATFORM_HOST}:${port}`, token: platform.token }
  expect(await runProgram({ ...settings, organization: platform.organization }, file)).toEqual({
    url: `https://app-local.${DOMAIN}:${(proxy.address() as AddressInfo).port}`,
    committed: [1, 2],
    streamed: 5_000,
    inserts: 1,
    withoutToken: 401,
    otherDatabase: 404,
    despiteHeaders: ['t'],
    afterRotation: 401,
    afterDeletion: 404,
  })
  // a client without the certificate does not connect
  await expect(runProgram({ ...settings, organization: platform.organization }, '')).rejects.toThrow(
    /self-signed certificate|unable to verify/,
  )
})
