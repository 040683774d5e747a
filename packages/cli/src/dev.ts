import { once } from 'node:events'
import { statSync } from 'node:fs'
import { parse as parsePath } from 'node:path'
import type { LocalServer, LocalServerOptions } from '@batonsql/local-server'
import { checkFile } from './check-file.ts'
import type { CommandContext, CommandInput } from './command-context.ts'
import { openControlSocket } from './control/control-server.ts'
import { loadServer } from './load-server.ts'
import { DEV_OPTIONS, type SERVE_OPTIONS, type ValuesOf } from './option-table.ts'
import { readChoice } from './read-choice.ts'
import { readPort } from './read-port.ts'
import { UsageError } from './usage-error.ts'
import { writeAtomically } from './write-atomically.ts'

/** Serves databases until a signal stops the process. */
export const runDev = ({ values, context }: CommandInput<typeof DEV_OPTIONS>): Promise<void> =>
  serve(values, context)

/** Serves databases of libsql-server until a signal stops the process, with the settings of a server that others use. */
export async function runServe({ values, context }: CommandInput<typeof SERVE_OPTIONS>): Promise<void> {
  if (values.data === undefined) throw new UsageError('baton serve: missing --data DIR')
  await serve({ log: 'errors', ...values, backend: 'sqld', auth: true }, context)
}

async function serve(values: DevValues, { output, stderr, signal }: CommandContext): Promise<void> {
  const { options, databases } = readDevOptions(values)
  // a server continues when the reader of its output or its log has gone, as in `baton dev | head -1`
  for (const stream of [output, stderr]) stream.removeAllListeners('error').on('error', () => {})
  const { startLocalServer } = await loadServer(() => import('@batonsql/local-server'))
  const files = nameFiles(values.open ?? [])
  const copied = new Set<string>()
  const copies = [...files].map(([name, file]) => {
    const copy = async (): Promise<{ readonly fromFile: string }> => {
      await checkFile(file)
      copied.add(name)
      return { fromFile: file }
    }
    return [name, copy] as const
  })
  const server = await startLocalServer({
    ...options,
    databases: {
      ...Object.fromEntries(databases.map((name) => [name, {}])),
      ...Object.fromEntries(copies),
    },
  }).catch((error: unknown) => {
    throw toUsageError(error, files)
  })
  let control: AsyncDisposable | null = null
  try {
    checkDomains(server, options)
    control = await openControl(server)
    const order = [...files.keys(), ...server.databaseNames.filter((name) => !files.has(name))]
    const tokenFile = values['token-file']
    if (tokenFile !== undefined) await writeTokenFile(tokenFile, await describeServer(server, order, true))
    // output that is not a terminal may be stored: in the system journal, by a container engine, in a file
    const announcement = await describeServer(server, order, process.stdout.isTTY && tokenFile === undefined)
    const { host = '127.0.0.1' } = options
    if (!server.takesTokens && !LOOPBACK.test(host))
      stderr.write(`Anyone who can reach ${host} has full access; --auth requires tokens.\n`)
    if (values.json === true) console.log(JSON.stringify(announcement))
    else {
      announce(server, options, announcement, tokenFile)
      // an earlier start may have made the copy
      for (const [name, file] of files)
        console.log(
          copied.has(name)
            ? `${name}: a copy of ${file}, which is not changed`
            : `${name}: the copy in the data directory; ${file} was not read again`,
        )
    }
    if (!signal.aborted) await once(signal, 'abort')
  } finally {
    await control?.[Symbol.asyncDispose]()
    await server.close()
  }
}

/** Addresses that only this machine can reach. */
const LOOPBACK = /^(?:(?:[^.]+\.)?localhost|127(?:\.\d{1,3}){3}|::1)$/i

type DevValues = ValuesOf<typeof DEV_OPTIONS>

/** Returns the files of `--open` by the names of their databases. @throws UsageError if two files have the same name */
function nameFiles(files: readonly string[]): ReadonlyMap<string, string> {
  const filesByName = new Map<string, string>()
  for (const file of files) {
    const name = toDatabaseName(file)
    const other = filesByName.get(name)
    if (other !== undefined)
      throw new UsageError(
        `baton: --open ${other} and --open ${file} would both be the database "${name}"; rename one of the files`,
      )
    filesByName.set(name, file)
  }
  return filesByName
}

/** Matches the TypeErrors of the server that are about an option, which they name. Others are programming errors. */
const OPTION_ERROR =
  /^(?:startLocalServer: |(?:platform|domains|allowOrigins)[:. ]|sqld\.|".*" is not a valid database name)/s

/**
 * Returns the usage error for an invalid option of the server; any other error as it is. An error about the name of a database names
 * its file, because the user has written only that.
 */
export function toUsageError(error: unknown, files: ReadonlyMap<string, string>): unknown {
  if (!(error instanceof TypeError && OPTION_ERROR.test(error.message))) return error
  const message = error.message.replace(/^startLocalServer: /, '')
  const name = /^"(.*?)" is not a valid database name/s.exec(message)?.[1]
  const file = name === undefined ? undefined : files.get(name)
  return new UsageError(
    file === undefined ? `baton: ${message}` : `baton: --open ${file}: ${message}; rename the file`,
  )
}

async function writeTokenFile(path: string, announcement: Announcement): Promise<void> {
  const text = `${JSON.stringify(announcement)}\n`
  await writeAtomically(path, text, 0o600).catch((error: Error) => {
    throw new Error(`the tokens could not be written to ${path}: ${error.message}`, { cause: error })
  })
}

/** Opens the socket for commands of this machine. Without it, the server works, but commands cannot change it. */
async function openControl(server: LocalServer): Promise<AsyncDisposable | null> {
  try {
    return await openControlSocket(server)
  } catch (error) {
    console.error(`baton: commands on this machine cannot change this server: ${(error as Error).message}`)
    return null
  }
}

/** Checks the domains. @throws UsageError for one without a database, unless the platform API can still create that database */
function checkDomains(server: LocalServer, { domains = {} }: LocalServerOptions): void {
  if (server.platform !== null) return
  for (const [host, name] of Object.entries(domains)) {
    if (!server.databaseNames.includes(name))
      throw new UsageError(
        `baton: --domain ${host}=${name}: database "${name}" does not exist; create it with --database ${name}`,
      )
  }
}

/** Returns the name of a file's database: the name of the file, with only the characters and the length that database names allow. */
function toDatabaseName(file: string): string {
  const { name } = parsePath(file)
  return name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 64)
}

/** Reads the options of the server and the names of databases to create. @throws UsageError */
function readDevOptions(values: DevValues): { options: LocalServerOptions; databases: readonly string[] } {
  const { data, host, database: databases = [], organization } = values
  const backend = readChoice('baton: --backend', DEV_OPTIONS.backend.choices, values.backend ?? 'embedded')
  const port = readPort('--port', values.port ?? '8080')
  const platformPort = values['platform-port']
  const domain = values['platform-domain']
  const delay = values['ready-delay']
  const usesPlatformOptions = [organization, domain, delay].some((value) => value !== undefined)
  if (usesPlatformOptions && platformPort === undefined)
    throw new UsageError('baton: --organization, --platform-domain and --ready-delay need --platform-port')
  if (values['token-file'] !== undefined && values.auth !== true && platformPort === undefined)
    throw new UsageError('baton: --token-file needs --auth or --platform-port')
  if (delay !== undefined && !/^\d{1,9}$/.test(delay))
    throw new UsageError(`baton: --ready-delay must be a number of milliseconds, not ${delay}`)
  if (data !== undefined && statSync(data, { throwIfNoEntry: false })?.isFile())
    throw new UsageError(
      `baton: --data must be a directory, but ${data} is a file; --open ${data} serves a copy of it`,
    )
  const dialect =
    values.dialect === undefined
      ? undefined
      : readChoice('baton: --dialect', DEV_OPTIONS.dialect.choices, values.dialect)
  if (dialect !== undefined && backend === 'sqld')
    throw new UsageError('baton: --dialect requires --backend embedded')
  const options = {
    backend,
    ...(dialect !== undefined && { dialect }),
    port,
    log: readChoice('baton: --log', DEV_OPTIONS.log.choices, values.log ?? 'none'),
    inspector: values['no-inspector'] !== true && values.auth !== true && platformPort === undefined,
    allowOrigins: values['allow-origin'] ?? [],
    domains: Object.fromEntries((values.domain ?? []).map(readDomain)),
    ...(data !== undefined && { dataDirectory: data }),
    onLost: (error: Error): void => {
      console.error(`baton: ${error.message}; exiting to avoid overwriting its data`)
      process.exit(1)
    },
    ...(host !== undefined && { host }),
    ...readRemote(values),
    ...readReplicas(values),
    ...(values.auth === true && { auth: true }),
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

function readReplicas(values: DevValues): Pick<LocalServerOptions, 'replicas' | 'replicaLagMs'> {
  const { replica: replicas = [], 'replica-lag': lags = [] } = values
  if (replicas.length === 0 && lags.length === 0) return {}
  if (values.backend !== 'sqld' || values['sqld-url'] !== undefined)
    throw new UsageError('baton: --replica and --replica-lag need --backend sqld, without --sqld-url')
  return { replicas, replicaLagMs: readLag(lags) }
}

/** Reads the replication delay: one for all replicas, or one for each location. */
function readLag(texts: readonly string[]): NonNullable<LocalServerOptions['replicaLagMs']> {
  const parts = texts.map((text) => {
    const [, location, ms] = /^(?:([a-z0-9-]+)=)?(\d{1,9})$/.exec(text) ?? []
    if (ms === undefined) throw new UsageError(`baton: --replica-lag must be MS or LOCATION=MS, not ${text}`)
    return { location, ms: Number(ms) }
  })
  const [firstPart] = parts
  if (firstPart !== undefined && firstPart.location === undefined && parts.length === 1) return firstPart.ms
  if (parts.some(({ location }) => location === undefined))
    throw new UsageError('baton: with several --replica-lag options, each must be LOCATION=MS')
  return Object.fromEntries(parts.map(({ location, ms }) => [location, ms]))
}

/** Reads the address of a remote libsql-server; its key is not an option, because all users can read command lines. */
function readRemote(values: DevValues): Pick<LocalServerOptions, 'sqld'> {
  const { 'sqld-url': url, 'sqld-admin-url': adminUrl } = values
  const adminKey = process.env['BATON_SQLD_ADMIN_KEY']
  if (url === undefined && adminUrl === undefined) return {}
  if (url === undefined || adminUrl === undefined || adminKey === undefined)
    throw new UsageError('baton: --sqld-url, --sqld-admin-url and BATON_SQLD_ADMIN_KEY must be set together')
  return { sqld: { url, adminUrl, adminKey } }
}

function readDomain(text: string): [host: string, name: string] {
  const [, host, name] = /^([^=\s]+)=([^=\s]+)$/.exec(text) ?? []
  if (host === undefined || name === undefined)
    throw new UsageError(`baton: --domain must be HOST=DATABASE, not ${text}`)
  return [host, name]
}

interface AnnouncedDatabase {
  readonly url: string
  readonly token?: string
  /** URLs by location. */
  readonly replicas?: Readonly<Record<string, string>>
}

/** Everything that a program needs to use the server. */
interface Announcement {
  readonly url: string
  readonly inspector?: string
  readonly databases: Readonly<Record<string, AnnouncedDatabase>>
  readonly platform?: { readonly url: string; readonly token?: string; readonly organization: string }
}

/** Describes how to use a server. @param names the databases, in the order in which they are printed */
async function describeServer(
  server: LocalServer,
  names: readonly string[],
  withTokens: boolean,
): Promise<Announcement> {
  const databases: Record<string, AnnouncedDatabase> = {}
  for (const name of names) {
    const token = withTokens && server.takesTokens ? await server.createToken(name) : undefined
    const replicas = server.backend === 'sqld' ? server.replicaUrls(name) : {}
    databases[name] = {
      url: server.urlOf(name),
      ...(token !== undefined && { token }),
      ...(Object.keys(replicas).length > 0 && { replicas }),
    }
  }
  const { url, platform, inspectorUrl } = server
  return {
    url,
    ...(inspectorUrl !== null && { inspector: inspectorUrl }),
    databases,
    ...(platform !== null && {
      platform: {
        url: platform.url,
        ...(withTokens && { token: platform.token }),
        organization: platform.organization,
      },
    }),
  }
}

/** Prints how to use a server. @param tokenFile the file that has the tokens, which are not printed then */
function announce(
  server: LocalServer,
  options: LocalServerOptions,
  { inspector, databases, platform }: Announcement,
  tokenFile: string | undefined,
): void {
  const { dataDirectory } = options
  console.log(
    `${server.version}, data ${dataDirectory === undefined ? 'removed when it stops' : `in ${dataDirectory}`}`,
  )
  const entries = Object.entries(databases)
  for (const [name, { url, token, replicas = {} }] of entries) {
    console.log(`${entries.length === 1 ? 'database' : name}: ${url}`)
    for (const [location, address] of Object.entries(replicas))
      console.log(`  replica in ${location}: ${address}`)
    if (token !== undefined) console.log(`  token: ${token}`)
  }
  if (inspector !== undefined) console.log(`inspector: ${inspector} (live requests)`)
  if (platform !== undefined) {
    console.log(`platform: ${platform.url}\n  organization: ${platform.organization}`)
    if (platform.token !== undefined) console.log(`  token: ${platform.token}`)
  }
  if (tokenFile !== undefined) console.log(`tokens: in ${tokenFile}`)
  else if (server.takesTokens && !process.stdout.isTTY)
    console.log(
      'tokens: not printed, because the output is not a terminal; --token-file FILE writes them to a file',
    )
}
