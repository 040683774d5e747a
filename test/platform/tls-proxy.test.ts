import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startLocalServer } from '@batonsql/local-server'
import { expect, inject, onTestFinished, test } from 'vitest'
import { stablePort } from '../support/stable-port.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { waitFor } from '../support/wait-for.ts'
import { words } from '../support/words.ts'

// The recipe "Behind a proxy" in docs/self-hosting.md: a proxy terminates TLS in front of both ports. nginx and Caddy run with the files
// in docs/proxies, with other ports and another certificate.

const DOMAIN = 'db.example'
const PLATFORM_HOST = 'api.db.example'
const PROGRAM = fileURLToPath(new URL('tls-program.ts', import.meta.url))

/** Creates a self-signed certificate for every database and for the platform API, valid for a day. */
async function createCertificate(): Promise<{
  readonly cert: string
  readonly key: string
  readonly file: string
  readonly keyFile: string
}> {
  const directory = createTemporaryDirectory()
  const [keyFile, file] = [join(directory, 'key.pem'), join(directory, 'cert.pem')]
  const extension = `subjectAltName=DNS:${DOMAIN},DNS:*.${DOMAIN}`
  const options = words('req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1')
  const files = ['-subj', '/CN=proxy', '-addext', extension, '-keyout', keyFile, '-out', file]
  await promisify(execFile)('openssl', [...options, ...files])
  return { cert: readFileSync(file, 'utf8'), key: readFileSync(keyFile, 'utf8'), file, keyFile }
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

/** Ports and certificate of a proxy. */
interface ProxyOptions {
  readonly port: number
  readonly database: number
  readonly platform: number
  readonly certificate: Awaited<ReturnType<typeof createCertificate>>
}

/** Starts the proxy of this file. */
async function startNodeProxy({ port, certificate, ...ports }: ProxyOptions): Promise<void> {
  const proxy = createServer(certificate, (incoming, outgoing) => forward(incoming, outgoing, ports))
  await new Promise<void>((resolve) => proxy.listen(port, '127.0.0.1', resolve))
  onTestFinished(async () => {
    proxy.closeAllConnections()
    await new Promise((resolve) => proxy.close(resolve))
  })
}

/** Returns a file of docs/proxies with the ports and the certificate of a test. */
function adaptFile(name: string, { port, database, platform, certificate }: ProxyOptions): string {
  const text = readFileSync(new URL(`../../docs/proxies/${name}`, import.meta.url), 'utf8')
  const adapted = text
    .replaceAll('/etc/ssl/db.example.pem', certificate.file)
    .replaceAll('/etc/ssl/db.example.key', certificate.keyFile)
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${database}`)
    .replaceAll('127.0.0.1:8081', `127.0.0.1:${platform}`)
  return name === 'Caddyfile'
    ? `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${adapted.replaceAll(/^(?!#)(.*db\.example.*) \{$/gm, (line) => line.replaceAll(/db\.example/g, `$&:${port}`))}`
    : adapted.replaceAll('listen 443 ssl', `listen 127.0.0.1:${port} ssl`)
}

/** Starts a program for the rest of the test, and waits until it accepts connections. */
async function startProgram(command: readonly string[], port: number, home: string): Promise<void> {
  const [program, ...args] = command as [string, ...string[]]
  const env = { ...process.env, HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home }
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = once(child, 'exit')
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (output += part))
  onTestFinished(async () => {
    child.kill('SIGTERM')
    await exited
  })
  await waitFor(async () => {
    if (child.exitCode !== null) throw new Error(`${program} exited: ${output}`)
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect').finally(() => socket.destroy())
  })
}

async function startNginx(options: ProxyOptions): Promise<void> {
  const folder = createTemporaryDirectory()
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  await writeFile(join(folder, 'baton.conf'), adaptFile('nginx.conf', options))
  await writeFile(
    join(folder, 'nginx.conf'),
    `daemon off; master_process off; pid ${folder}/pid; error_log stderr;
events {}
http { access_log off; send_timeout 1s; ${temporary.join(' ')} include ${folder}/baton.conf; }
`,
  )
  await startProgram(
    ['nginx', '-e', 'stderr', '-p', folder, '-c', join(folder, 'nginx.conf')],
    options.port,
    folder,
  )
}

async function startCaddy(options: ProxyOptions): Promise<void> {
  const folder = createTemporaryDirectory()
  await writeFile(join(folder, 'Caddyfile'), adaptFile('Caddyfile', options))
  await startProgram(['caddy', 'run', '--config', join(folder, 'Caddyfile')], options.port, folder)
}

const isInstalled = (program: string): boolean => spawnSync(program, ['version', '-v']).error === undefined
const PROXIES = [
  { title: 'of this test', program: process.execPath, start: startNodeProxy },
  { title: 'nginx', program: 'nginx', start: startNginx },
  { title: 'Caddy', program: 'caddy', start: startCaddy },
].map((proxy) => {
  const isMissing = !isInstalled(proxy.program)
  return { ...proxy, isMissing, title: `${proxy.title}${isMissing ? ', which is not on this machine' : ''}` }
})

/** Runs the program, which can connect only to the proxy. @returns its output */
async function runProgram(settings: object, certificateFile: string): Promise<unknown> {
  const { NODE_OPTIONS: _, ...environment } = process.env
  const child = spawn(
    process.execPath,
    ['--conditions=@batonsql/source', PROGRAM, JSON.stringify(settings)],
    { env: { ...environment, NODE_EXTRA_CA_CERTS: certificateFile }, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  onTestFinished(() => void child.kill('SIGKILL'))
  let [output, errors] = ['', '']
  child.stdout.on('data', (part) => (output += part))
  child.stderr.on('data', (part) => (errors += part))
  const code = await new Promise((resolve) => child.once('close', resolve))
  if (code !== 0) throw new Error(`the program exited with ${String(code)}: ${errors}`)
  return JSON.parse(output)
}

test.for(PROXIES)(
  'the platform API and databases, by host and by path, work behind a TLS proxy: $title',
  async ({ start, isMissing }, { skip }) => {
    if (isMissing) skip()
    const certificate = await createCertificate()
    const port = await stablePort()
    const server = await startLocalServer({
      backend: inject('target') as 'embedded' | 'sqld',
      platform: { domain: `${DOMAIN}:${port}` },
      domains: { [DOMAIN]: 'default' },
    })
    onTestFinished(() => server.close())
    const { platform } = server
    if (platform === null) throw new Error('no platform')
    const ports = { database: server.port, platform: Number(new URL(platform.url).port) }
    await start({ port, certificate, ...ports })
    const settings = {
      url: `https://${PLATFORM_HOST}:${port}`,
      token: platform.token,
      organization: platform.organization,
      domain: `https://${DOMAIN}:${port}`,
    }
    expect(await runProgram(settings, certificate.file)).toEqual({
      url: `https://app-local.${DOMAIN}:${port}`,
      committed: [1, 2],
      streamed: 5_000,
      lastOfEndless: 10_000,
      largeBody: 2_000_000,
      byPath: [1, 2],
      inserts: 1,
      withoutToken: 401,
      otherDatabase: 404,
      despiteHeaders: ['t'],
      afterRotation: 401,
      afterDeletion: 404,
    })
    // a client without the certificate does not connect
    await expect(runProgram(settings, '')).rejects.toThrow(/self-signed certificate|unable to verify/)
  },
)
