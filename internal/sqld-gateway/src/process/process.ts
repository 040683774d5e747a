import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { checkOptions, PORT, POSITIVE_INTEGER, type RulesOf } from '@batonsql/options'
import {
  DirectoryLock,
  findFreePort,
  getProcessIdentity,
  isMissing,
  openDirectory,
  type TemporaryDirectory,
} from '@batonsql/server-common/base'
import { SqldAdmin } from './admin.ts'
import { findSqld } from './binary.ts'
import { settleAtStart } from './settle-migrations.ts'

const START_TIMEOUT_MS = 15_000
const STOP_TIMEOUT_MS = 3_000
const START_ATTEMPTS = 5
const LOG_TAIL_CHARACTERS = 4_000
/** Matches the log of a server that crashed because of a migration. */
const MIGRATION_CRASH = /panicked at \S*schema\/scheduler\.rs/

/** Options of {@link startSqld}. */
export interface SqldOptions {
  /** Path of the program; by default found by `findSqld`. */
  readonly sqldPath?: string
  /** Data directory. By default, a temporary one that `close()` removes. */
  readonly dataDirectory?: string
  /** Port on 127.0.0.1. @default a free port */
  readonly port?: number
  /**
   * Whether the server has several databases. If false, there is only `default`, at the bare URL; if true, a request names its
   * database in the `x-namespace-bin` header or in the first label of the host name.
   * @default false
   */
  readonly namespaces?: boolean
  /** Ed25519 public key (PEM) for verifying tokens. Without it, everyone has full access. */
  readonly publicKeyPem?: string
  /** Maximum number of open databases with `namespaces`; beyond it the server responds with false 404s. @default 1000 */
  readonly maxOpenDatabases?: number
  /** Additional arguments of the program, such as those of a replica. */
  readonly serverArguments?: readonly string[]
}

const OPTIONS: RulesOf<SqldOptions> = {
  sqldPath: 'string',
  dataDirectory: 'string',
  port: PORT,
  namespaces: 'boolean',
  publicKeyPem: 'string',
  maxOpenDatabases: POSITIVE_INTEGER,
  serverArguments: 'object',
}

/** Servers started by this process; they are killed when it exits. */
const children = new Set<ChildProcess>()

function killAll(): void {
  for (const child of children) child.kill('SIGKILL')
}

/** Kills a child at exit, before directories are removed. All share one listener: Node.js warns about more than ten. */
function killAtExit(child: ChildProcess): void {
  if (children.size === 0) process.prependOnceListener('exit', killAll)
  children.add(child)
}

function forgetChild(child: ChildProcess): void {
  children.delete(child)
  if (children.size === 0) process.off('exit', killAll)
}

interface StartPlan {
  readonly binary: string
  readonly directory: string
  readonly port: number
  readonly adminPort: number
  readonly adminKey: string
  readonly options: SqldOptions
}

/**
 * Starts libsql-server as a child process on 127.0.0.1 and waits until it accepts requests. It never outlives this process, even
 * if this process is killed. Rejects with `SqldMissingError` if the program is not found.
 */
export async function startSqld(options: SqldOptions = {}): Promise<SqldProcess> {
  checkOptions(options, OPTIONS, 'startSqld')
  return await startSqldChild(options)
}

/** Starts libsql-server. @param previous the server that it replaces, which has exited unexpectedly */
export async function startSqldChild(
  options: SqldOptions = {},
  previous: SqldChild | null = null,
): Promise<SqldChild> {
  const binary = await findSqld(options)
  const { directory, temporary } = await openDirectory(options.dataDirectory, 'baton-sqld-')
  let server: SqldChild | null = null
  const lock = await DirectoryLock.acquire(directory, () => void server?.kill())
  try {
    await killOrphan(directory)
    await clearEmptyVersion(directory)
    const resumesMigration = await settleAtStart(
      join(directory, 'sqld'),
      previous?.crashedOnMigration === true,
    )
    const started = await startWithFreePorts(binary, directory, options)
    server = new SqldChild({ ...started, resumesMigration, lock, temporary })
    return server
  } catch (error) {
    await lock.release()
    await temporary?.remove()
    throw error
  }
}

interface StartedServer {
  readonly plan: StartPlan
  readonly child: ChildProcess
  /** Stops the watchdog of the server. */
  readonly stopWatchdog: () => void
  readonly admin: SqldAdmin
  /** Returns the tail of its output. */
  readonly log: () => string
  readonly version: string
}

interface SqldParts extends StartedServer {
  /** Whether it was started with a migration to resume. */
  readonly resumesMigration: boolean
  readonly lock: DirectoryLock
  readonly temporary: TemporaryDirectory | null
}

/** A libsql-server that was started. */
export interface SqldProcess extends AsyncDisposable {
  /** `http://127.0.0.1:PORT`; the URL of the database without `namespaces`. */
  readonly url: string
  readonly host: string
  readonly port: number
  /** URL and key of the admin API, for another control plane. */
  readonly adminAccess: { readonly adminUrl: string; readonly adminKey: string }
  /** The version as the program reports it, for example `sqld 0.24.32 (40c272de 2025-02-14)`. */
  readonly version: string
  readonly pid: number
  /** Whether the process is running. */
  readonly isRunning: boolean
  /** Kills the process and keeps its data, like a crash or a power failure. */
  kill(): Promise<void>
  /** Stops the server; open transactions are rolled back. Removes a temporary data directory. */
  close(): Promise<void>
}

/** A libsql-server with what only the gateway needs: its admin API, and how it ended. */
export class SqldChild implements SqldProcess {
  readonly #parts: SqldParts
  #closing: Promise<void> | null = null
  readonly host = '127.0.0.1'

  constructor(parts: SqldParts) {
    this.#parts = parts
    killAtExit(parts.child)
  }

  get url(): string {
    return `http://${this.host}:${this.port}`
  }

  get adminAccess(): SqldProcess['adminAccess'] {
    const { adminPort, adminKey } = this.#parts.plan
    return { adminUrl: `http://${this.host}:${adminPort}`, adminKey }
  }

  get port(): number {
    return this.#parts.plan.port
  }

  get version(): string {
    return this.#parts.version
  }

  get pid(): number {
    return this.#parts.child.pid as number
  }

  /** Client of the admin API of this process. */
  get admin(): SqldAdmin {
    return this.#parts.admin
  }

  get isRunning(): boolean {
    const { child } = this.#parts
    return child.exitCode === null && child.signalCode === null
  }

  /** Whether it crashed because of a migration that it resumed. */
  get crashedOnMigration(): boolean {
    return !this.isRunning && this.#parts.resumesMigration && MIGRATION_CRASH.test(this.#parts.log())
  }

  async kill(): Promise<void> {
    await stopChild(this.#parts.child, 'SIGKILL')
    await this.close()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    const { child, stopWatchdog, lock, plan, temporary } = this.#parts
    await stopChild(child, 'SIGTERM')
    stopWatchdog()
    if (!lock.isLost) await rm(getPidFile(plan.directory), { force: true })
    await lock.release()
    forgetChild(child)
    await temporary?.remove()
  }
}

async function startWithFreePorts(
  binary: string,
  directory: string,
  options: SqldOptions,
): Promise<StartedServer> {
  for (let attempt = 1; ; attempt += 1) {
    const plan: StartPlan = {
      binary,
      directory,
      port: options.port ?? (await findFreePort('127.0.0.1')),
      adminPort: await findFreePort('127.0.0.1'),
      adminKey: randomBytes(24).toString('hex'),
      options,
    }
    try {
      return await startOnce(plan)
    } catch (error) {
      // another process may have taken a port since it was found free; with a fixed `port`, only the admin port changes
      const isPortTaken = error instanceof Error && /address.*in use/i.test(error.message)
      if (!isPortTaken || attempt === START_ATTEMPTS) throw error
    }
  }
}

/** Address space for the stack of each thread; only the part in use consumes memory. */
const STACK_BYTES = 1024 ** 3

async function startOnce(plan: StartPlan): Promise<StartedServer> {
  const args = await buildArguments(plan)
  const child = spawn('/bin/sh', ['-c', WATCHDOG_SCRIPT, 'baton-sqld', plan.binary, ...args], {
    // with backups to a bucket, the server creates files in the working directory
    cwd: plan.directory,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    // a separate process group: Ctrl-C signals only this process, which then stops the server
    detached: true,
    env: {
      ...process.env,
      RUST_LOG: process.env['RUST_LOG'] ?? 'error',
      // with an arena for each thread, the memory of large requests is kept several times
      MALLOC_ARENA_MAX: process.env['MALLOC_ARENA_MAX'] ?? '2',
      // long patterns, JSON paths and expressions are recursive, and overflow the default of 2 MiB
      RUST_MIN_STACK: process.env['RUST_MIN_STACK'] ?? String(STACK_BYTES),
      // any user of this machine could read a command-line argument
      LIBSQL_ADMIN_AUTH_KEY: plan.adminKey,
    },
  })
  const watch = child.stdio[3] as Socket
  watch.on('error', () => {})
  watch.unref()
  const stopWatchdog = (): void => void watch.end('done\n')
  const stop = async (): Promise<void> => {
    await stopChild(child, 'SIGKILL')
    stopWatchdog()
  }
  let log = ''
  const keepTail = (chunk: Buffer): void => {
    log = (log + chunk.toString('utf8')).slice(-LOG_TAIL_CHARACTERS)
  }
  child.stdout?.on('data', keepTail)
  child.stderr?.on('data', keepTail)
  child.unref()
  const failures: Error[] = []
  child.once('error', (error) => failures.push(error))
  const admin = new SqldAdmin({ host: '127.0.0.1', port: plan.adminPort }, plan.adminKey)
  const deadline = performance.now() + START_TIMEOUT_MS
  // the admin API requires our random key, so another server on the port cannot be mistaken for ours
  while (!(await admin.isReady())) {
    const hasExited = failures.length > 0 || child.exitCode !== null || child.signalCode !== null
    if (hasExited || performance.now() > deadline) {
      await stop()
      const reason = hasExited ? 'it exited at once' : `it was not ready after ${START_TIMEOUT_MS} ms`
      throw new Error(
        `libsql-server did not start: ${failures[0]?.message ?? reason}
${log}`.trimEnd(),
      )
    }
    await sleep(5)
  }
  try {
    await writePidFile(plan.directory, child.pid as number)
    return { plan, child, stopWatchdog, admin, log: () => log, version: await readVersion(plan.binary) }
  } catch (error) {
    await stop()
    throw error
  }
}

async function buildArguments(plan: StartPlan): Promise<string[]> {
  const { options } = plan
  const args = ['--db-path', join(plan.directory, 'sqld')]
  await mkdir(join(plan.directory, 'sqld'), { recursive: true })
  args.push(
    '--http-listen-addr',
    `127.0.0.1:${plan.port}`,
    '--admin-listen-addr',
    `127.0.0.1:${plan.adminPort}`,
  )
  args.push('--shutdown-timeout', '2', '--no-welcome')
  if (options.publicKeyPem !== undefined) {
    const path = join(plan.directory, 'public-key.pem')
    await writeFile(path, options.publicKeyPem)
    args.push('--auth-jwt-key-file', path)
  }
  if (options.namespaces === true) {
    args.push('--enable-namespaces', '--disable-default-namespace')
    args.push('--max-active-namespaces', String(options.maxOpenDatabases ?? 1_000))
  }
  return [...args, ...(options.serverArguments ?? [])]
}

/**
 * Runs a program and a watchdog that reads from a pipe to this process: when this process exits for any reason, the watchdog
 * kills the program. The shell starts the watchdog first, so that the program never runs without it.
 */
const WATCHDOG_SCRIPT =
  '(read -r line <&3; [ "$line" = done ] || kill -9 $$) >/dev/null 2>&1 & exec "$@" 3<&-'

const getPidFile = (directory: string): string => join(directory, 'sqld.pid')

async function writePidFile(directory: string, pid: number): Promise<void> {
  await writeFile(getPidFile(directory), JSON.stringify({ pid, identity: await getProcessIdentity(pid) }))
}

/** Kills a server left running by a previous owner of the directory that was itself killed. */
async function killOrphan(directory: string): Promise<void> {
  try {
    const { pid, identity } = JSON.parse(await readFile(getPidFile(directory), 'utf8')) as {
      readonly pid: number
      readonly identity: string | null
    }
    if (identity === null || (await getProcessIdentity(pid)) !== identity) return
    process.kill(pid, 'SIGKILL')
    while ((await getProcessIdentity(pid)) === identity) await sleep(5)
  } catch (error) {
    // there is no pid file, it is incomplete, or the process has exited
    const isGone = isMissing(error) || error instanceof SyntaxError || isNoProcess(error)
    if (!isGone) throw error
  }
}

const isNoProcess = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ESRCH'

/** Removes an empty version file, which a server killed during startup leaves and which would prevent every later start. */
async function clearEmptyVersion(directory: string): Promise<void> {
  const file = join(directory, 'sqld', '.version')
  const { size = -1 } = (await stat(file).catch(() => null)) ?? {}
  if (size === 0) await rm(file)
}

async function stopChild(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  child.ref()
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  child.kill(signal)
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
  await exited
  clearTimeout(timer)
}

/** Returns the version that the program reports. */
export async function readVersion(binary: string): Promise<string> {
  const { stdout } = await promisify(execFile)(binary, ['--version'])
  return stdout.trim().replace(/^sqld sqld /, 'sqld ')
}
