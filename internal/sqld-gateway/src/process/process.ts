import type { ChildProcess } from 'node:child_process'
import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { COUNT, checkOptions, NON_EMPTY, PORT, type RulesOf, STRINGS } from '@batonsql/options'
import { DirectoryLock, openDirectory, type TemporaryDirectory } from '@batonsql/server-common/base'
import type { SqldAdmin } from './admin.ts'
import { findSqld } from './binary.ts'
import { killOrphan, removePidFile } from './pid-file.ts'
import { settleMigrations } from './settle-migrations.ts'
import { type StartedServer, spawnSqld, stopChild } from './spawn-sqld.ts'
import type { SqldOptions } from './sqld-options.ts'

/** Matches the log of a server that crashed because of a migration. */
const MIGRATION_CRASH = /panicked at \S*schema\/scheduler\.rs/

const OPTIONS: RulesOf<SqldOptions> = {
  sqldPath: 'string',
  dataDirectory: NON_EMPTY,
  port: PORT,
  namespaces: 'boolean',
  publicKeyPem: 'string',
  maxOpenDatabases: COUNT,
  serverArguments: STRINGS,
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
  options: SqldOptions,
  previous: SqldChild | null = null,
): Promise<SqldChild> {
  const binary = await findSqld(options)
  const { directory, temporary } = await openDirectory(options.dataDirectory, 'baton-sqld-')
  let server: SqldChild | null = null
  const lock = await DirectoryLock.acquire(directory, () => void server?.kill())
  try {
    await killOrphan(directory)
    await clearEmptyVersion(directory)
    const resumesMigration = await settleMigrations(
      join(directory, 'sqld'),
      previous?.crashedOnMigration === true,
    )
    const started = await spawnSqld(binary, directory, options)
    server = new SqldChild({ ...started, resumesMigration, lock, temporary })
    return server
  } catch (error) {
    await lock.release()
    await temporary?.remove()
    throw error
  }
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
  readonly port: number
  readonly url: string
  readonly version: string
  readonly pid: number
  /** Client of the admin API of this process. */
  readonly admin: SqldAdmin

  constructor(parts: SqldParts) {
    this.#parts = parts
    this.port = parts.plan.port
    this.url = `http://${this.host}:${this.port}`
    this.version = parts.version
    this.pid = parts.child.pid as number
    this.admin = parts.admin
    killAtExit(parts.child)
  }

  get adminAccess(): SqldProcess['adminAccess'] {
    const { adminPort, adminKey } = this.#parts.plan
    return { adminUrl: `http://${this.host}:${adminPort}`, adminKey }
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
    if (!lock.isLost) await removePidFile(plan.directory)
    await lock.release()
    forgetChild(child)
    await temporary?.remove()
  }
}

/** Removes an empty version file, which a server killed during startup leaves and which would prevent every later start. */
async function clearEmptyVersion(directory: string): Promise<void> {
  const file = join(directory, 'sqld', '.version')
  const { size = -1 } = (await stat(file).catch(() => null)) ?? {}
  if (size === 0) await rm(file)
}
