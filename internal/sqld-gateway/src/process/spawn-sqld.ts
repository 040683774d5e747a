import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { findFreePort } from '@batonsql/server-common/base'
import { SqldAdmin } from './admin.ts'
import { writePidFile } from './pid-file.ts'
import type { SqldOptions } from './sqld-options.ts'

const START_TIMEOUT_MS = 15_000
const STOP_TIMEOUT_MS = 3_000
const START_ATTEMPTS = 5
const LOG_TAIL_CHARACTERS = 4_000
/** Address space for the stack of each thread; only the part in use consumes memory. */
const STACK_BYTES = 1024 ** 3

/**
 * Runs a program and a watchdog that reads from a pipe to this process: when this process exits for any reason, the watchdog
 * kills the program. The shell starts the watchdog first, so that the program never runs without it.
 */
const WATCHDOG_SCRIPT =
  '(read -r line <&3; [ "$line" = done ] || kill -9 $$) >/dev/null 2>&1 & exec "$@" 3<&-'

interface StartPlan {
  readonly binary: string
  readonly directory: string
  readonly port: number
  readonly adminPort: number
  readonly adminKey: string
  readonly options: SqldOptions
}

export interface StartedServer {
  readonly plan: StartPlan
  readonly child: ChildProcess
  readonly stopWatchdog: () => void
  readonly admin: SqldAdmin
  /** Returns the tail of its output. */
  readonly log: () => string
  readonly version: string
}

/** Starts the program in a data directory, and waits until it accepts requests. Ports that are not given are free ones. */
export async function spawnSqld(
  binary: string,
  directory: string,
  options: SqldOptions,
): Promise<StartedServer> {
  for (let attempt = 1; ; attempt += 1) {
    const plan: StartPlan = {
      binary,
      directory,
      port: options.port ?? (await findFreePort()),
      adminPort: await findFreePort(),
      adminKey: randomBytes(24).toString('hex'),
      options,
    }
    try {
      return await startOnce(plan)
    } catch (error) {
      // with a fixed `port`, only the admin port changes
      if (!isPortTaken(error) || attempt === START_ATTEMPTS) throw error
    }
  }
}

/** Whether a server did not start because another process has taken a port since it was found free. */
export function isPortTaken(error: unknown): boolean {
  return error instanceof Error && /address.*in use/i.test(error.message)
}

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
      throw new Error(`libsql-server did not start: ${failures[0]?.message ?? reason}\n${log}`.trimEnd())
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

/** Sends a signal to a process that has not exited, and waits until it has; after 3 s, it is killed. */
export async function stopChild(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  child.ref()
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  child.kill(signal)
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
  await exited
  clearTimeout(timer)
}

export async function readVersion(binary: string): Promise<string> {
  const { stdout } = await promisify(execFile)(binary, ['--version'])
  return stdout.trim().replace(/^sqld sqld /, 'sqld ')
}
