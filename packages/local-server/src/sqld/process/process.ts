import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { DirectoryLock } from '../../base/directory-lock.ts'
import { freePort } from '../../base/free-port.ts'
import { checkOptionNames } from '../../base/known-options.ts'
import { processIdentity } from '../../base/process-identity.ts'
import { openDirectory, type TemporaryDirectory } from '../../base/temporary-directory.ts'
import { SqldAdmin } from './admin.ts'
import { findSqld } from './binary.ts'
import { settleAtStart } from './settle-migrations.ts'

const START_TIMEOUT_MS = 15_000
const STOP_TIMEOUT_MS = 3_000
const START_ATTEMPTS = 5
const LOG_TAIL_CHARACTERS = 4_000
/** In the log of a server that has ended because of a migration. */
const DIED_OF_MIGRATION = /panicked at \S*schema\/scheduler\.rs/

/** How {@link startSqld} starts the server. */
export interface SqldOptions {
  /** The program; by default found by `findSqld`. */
  readonly sqldPath?: string
  /** Where the data is kept. By default a temporary directory that `close()` removes. */
  readonly dataDirectory?: string
  /** Port on 127.0.0.1. @default a free one */
  readonly port?: number
  /**
   * Whether the server holds many databases. Without, there is only `default`, and the URL needs no addressing;
   * with, a request names its database by the `x-namespace-bin` header or by the first label of the host name.
   * @default false
   */
  readonly namespaces?: boolean
  /** Ed25519 public key (PEM) that tokens are checked with. Without one everybody has full access. */
  readonly publicKeyPem?: string
  /** Databases that can be open at once with `namespaces`; beyond it the server gives false 404s. @default 1000 */
  readonly maxOpenDatabases?: number
  /** More of the program's own arguments, such as those that make it a replica. */
  readonly serverArguments?: readonly string[]
}

const OPTION_NAMES = [
  'sqldPath',
  'dataDirectory',
  'port',
  'namespaces',
  'publicKeyPem',
  'maxOpenDatabases',
  'serverArguments',
] as const

/** Servers that this process has started; all of them end with it. */
const children = new Set<ChildProcess>()

function killAll(): void {
  for (const child of children) child.kill('SIGKILL')
}

/** At once, and before directories go. One listener for all: node warns of more than ten. */
function killAtExit(child: ChildProcess): void {
  if (children.size === 0) process.prependOnceListener('exit', killAll)
  children.add(child)
}

function letGo(child: ChildProcess): void {
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
 * Starts the real libsql-server as a child process on 127.0.0.1 and waits until it answers. It dies with this
 * process, even if this process is killed. Rejects with `SqldMissingError` when the program is not there.
 */
export async function startSqld(options: SqldOptions = {}): Promise<SqldProcess> {
  checkOptionNames('startSqld', options, OPTION_NAMES)
  return await startAfter(null, options)
}

/** The same, in place of one that has ended by itself. */
export async function startAfter(dead: SqldProcess | null, options: SqldOptions): Promise<SqldProcess> {
  const binary = await findSqld(options)
  const { directory, temporary } = await openDirectory(options.dataDirectory, 'baton-sqld-')
  const lock = await DirectoryLock.acquire(directory)
  try {
    await clearOrphan(directory)
    await clearEmptyVersion(directory)
    const isContinuing = await settleAtStart(join(directory, 'sqld'), dead?.diedOfContinuing === true)
    const started = await startWithFreePorts(binary, directory, options)
    return new SqldProcess({ ...started, version: await versionOf(binary), isContinuing, lock, temporary })
  } catch (error) {
    await lock.release()
    await temporary?.remove()
    throw error
  }
}

interface Started {
  readonly plan: StartPlan
  readonly child: ChildProcess
  /** Ends the watchdog of the server. */
  readonly endWatch: () => void
  readonly admin: SqldAdmin
  /** The end of what it has written. */
  readonly log: () => string
}

interface SqldParts extends Started {
  readonly version: string
  /** Whether it was to go on with a migration. */
  readonly isContinuing: boolean
  readonly lock: DirectoryLock
  readonly temporary: TemporaryDirectory | null
}

/** A running libsql-server. */
export class SqldProcess implements AsyncDisposable {
  readonly #parts: SqldParts
  #closing: Promise<void> | null = null

  /** Made by {@link startSqld} only. */
  constructor(parts: SqldParts) {
    this.#parts = parts
    killAtExit(parts.child)
  }

  /** `http://127.0.0.1:PORT`, for clients when started without `namespaces`. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  readonly host = '127.0.0.1'

  /** The admin API and its key, for a control plane elsewhere. */
  get adminAccess(): { readonly adminUrl: string; readonly adminKey: string } {
    const { adminPort, adminKey } = this.#parts.plan
    return { adminUrl: `http://127.0.0.1:${adminPort}`, adminKey }
  }

  get port(): number {
    return this.#parts.plan.port
  }

  /** What the program calls itself, for example `sqld 0.24.32 (40c272de 2025-02-14)`. */
  get version(): string {
    return this.#parts.version
  }

  get pid(): number {
    return this.#parts.child.pid as number
  }

  /** The admin API of this process. */
  get admin(): SqldAdmin {
    return this.#parts.admin
  }

  /** Whether the process is still there. */
  get isRunning(): boolean {
    const { child } = this.#parts
    return child.exitCode === null && child.signalCode === null
  }

  /** Whether it has ended because of a migration that it was to go on with. */
  get diedOfContinuing(): boolean {
    return !this.isRunning && this.#parts.isContinuing && DIED_OF_MIGRATION.test(this.#parts.log())
  }

  /** Ends the process the hard way and leaves its data, as a crash or a power switch would. */
  async kill(): Promise<void> {
    await stopChild(this.#parts.child, 'SIGKILL')
    await this.close()
  }

  /** Stops the server; open transactions are rolled back. Removes the data when the directory was temporary. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    const { child, endWatch, lock, plan, temporary } = this.#parts
    await stopChild(child, 'SIGTERM')
    endWatch()
    await rm(pidFile(plan.directory), { force: true })
    await lock.release()
    letGo(child)
    await temporary?.remove()
  }
}

async function startWithFreePorts(binary: string, directory: string, options: SqldOptions): Promise<Started> {
  for (let attempt = 1; ; attempt += 1) {
    const plan: StartPlan = {
      binary,
      directory,
      port: options.port ?? (await freePort('127.0.0.1')),
      adminPort: await freePort('127.0.0.1'),
      adminKey: randomBytes(24).toString('hex'),
      options,
    }
    try {
      return await startOnce(plan)
    } catch (error) {
      // another process may have taken a port between our look and the server's start: that of the admin API, where one is given
      const isPortTaken = error instanceof Error && /address.*in use/i.test(error.message)
      if (!isPortTaken || attempt === START_ATTEMPTS) throw error
    }
  }
}

/** Address space for the stack of each thread; only what is used takes memory. */
const STACK_BYTES = 1024 ** 3

async function startOnce(plan: StartPlan): Promise<Started> {
  const args = await commandLine(plan)
  const child = spawn('/bin/sh', ['-c', WATCHED, 'baton-sqld', plan.binary, ...args], {
    // with a backup to a bucket it leaves files where it is started
    cwd: plan.directory,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    // a group of its own: Ctrl-C in the terminal is for us, and we decide how the server stops
    detached: true,
    env: {
      ...process.env,
      RUST_LOG: process.env['RUST_LOG'] ?? 'error',
      // long patterns, paths of JSON and expressions call themselves: with the usual 2 MiB they end the server
      RUST_MIN_STACK: process.env['RUST_MIN_STACK'] ?? String(STACK_BYTES),
      // not on the command line, which everybody on this machine can read
      LIBSQL_ADMIN_AUTH_KEY: plan.adminKey,
    },
  })
  const watch = child.stdio[3] as Socket
  watch.on('error', () => {})
  watch.unref()
  const endWatch = (): void => void watch.end('done\n')
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
  // the admin API answers to our random key only, so another server on a stolen port cannot pass for ours
  while (!(await admin.isReady())) {
    const isGone = failures.length > 0 || child.exitCode !== null || child.signalCode !== null
    if (isGone || performance.now() > deadline) {
      await stopChild(child, 'SIGKILL')
      endWatch()
      const reason = isGone ? 'it ended at once' : `it was not ready after ${START_TIMEOUT_MS} ms`
      throw new Error(
        `libsql-server did not start: ${failures[0]?.message ?? reason}
${log}`.trimEnd(),
      )
    }
    await sleep(5)
  }
  await writePidFile(plan.directory, child.pid as number)
  return { plan, child, endWatch, admin, log: () => log }
}

async function commandLine(plan: StartPlan): Promise<string[]> {
  const { options } = plan
  const directory = resolve(plan.directory)
  const args = ['--db-path', join(directory, 'sqld')]
  await mkdir(join(directory, 'sqld'), { recursive: true })
  args.push(
    '--http-listen-addr',
    `127.0.0.1:${plan.port}`,
    '--admin-listen-addr',
    `127.0.0.1:${plan.adminPort}`,
  )
  args.push('--shutdown-timeout', '2', '--no-welcome')
  if (options.publicKeyPem !== undefined) {
    const path = join(directory, 'public-key.pem')
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
 * Runs a program in place of the shell, and beside it a watchdog that waits on a pipe to us: when we are gone, however that
 * came about, it ends the program. The shell starts it before the program, so that there is no moment without it.
 */
const WATCHED = '(read -r line <&3; [ "$line" = done ] || kill -9 $$) >/dev/null 2>&1 & exec "$@" 3<&-'

const pidFile = (directory: string): string => join(directory, 'sqld.pid')

async function writePidFile(directory: string, pid: number): Promise<void> {
  await writeFile(pidFile(directory), JSON.stringify({ pid, identity: await processIdentity(pid) }))
}

/** Ends a server that an earlier, killed owner of the directory has left behind. */
async function clearOrphan(directory: string): Promise<void> {
  try {
    const { pid, identity } = JSON.parse(await readFile(pidFile(directory), 'utf8')) as Record<
      string,
      unknown
    >
    if (typeof pid !== 'number' || identity === null || (await processIdentity(pid)) !== identity) return
    process.kill(pid, 'SIGKILL')
    while ((await processIdentity(pid)) === identity) await sleep(5)
  } catch {
    // no pid file, or the process went away by itself
  }
}

/** A server that is killed in its first moment leaves an empty file, with which it never starts again. */
async function clearEmptyVersion(directory: string): Promise<void> {
  const file = join(directory, 'sqld', '.version')
  const { size = -1 } = (await stat(file).catch(() => null)) ?? {}
  if (size === 0) await rm(file)
}

async function stopChild(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  child.ref()
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  child.kill(signal)
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
  await gone
  clearTimeout(timer)
}

/** What the program calls itself. */
export async function versionOf(binary: string): Promise<string> {
  const { stdout } = await promisify(execFile)(binary, ['--version'])
  return stdout.trim().replace(/^sqld sqld /, 'sqld ')
}
