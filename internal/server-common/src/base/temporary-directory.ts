import { createHash } from 'node:crypto'
import { readlinkSync, rmSync } from 'node:fs'
import { lstat, mkdtemp, readdir, rm } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { isAlive } from './process-identity.ts'

/** Directories of this process that still exist. */
const paths = new Set<string>()

function removeAll(): void {
  for (const path of paths) {
    try {
      rmSync(path, { recursive: true, force: true, maxRetries: 10 })
    } catch {
      // errors during exit cannot be reported
    }
  }
}

/** Returns text that is the same for processes that see each other's ids: those of one machine and one container. */
function getProcessSpace(): string {
  let namespace = ''
  try {
    namespace = readlinkSync('/proc/self/ns/pid')
  } catch {
    // not Linux
  }
  return createHash('sha256').update(`${hostname()} ${namespace}`).digest('hex').slice(0, 8)
}

const space = getProcessSpace()
let sweeping: Promise<void> | null = null

/** Removes the directories of this user's processes that were killed. */
async function removeLeftovers(): Promise<void> {
  const pattern = new RegExp(`^baton-(?:\\w+-)*?(\\d+)-${space}-`)
  for (const name of await readdir(tmpdir()).catch(() => [])) {
    const pid = pattern.exec(name)?.[1]
    // another process may remove it at the same time
    if (pid !== undefined && !isAlive(Number(pid))) await removeOwn(join(tmpdir(), name)).catch(() => {})
  }
}

async function removeOwn(path: string): Promise<void> {
  const { uid } = await lstat(path)
  if (uid === (process.getuid?.() ?? 0)) await rm(path, { recursive: true, force: true })
}

/** A temporary directory, removed explicitly or when this process exits; if the process is killed, when a later one creates one. */
export class TemporaryDirectory {
  readonly path: string

  private constructor(path: string) {
    this.path = path
    // all share one listener: Node.js warns about more than ten
    if (paths.size === 0) process.once('exit', removeAll)
    paths.add(path)
  }

  /** @param prefix prefix of its name, `baton-` or longer */
  static async create(prefix: string): Promise<TemporaryDirectory> {
    sweeping ??= removeLeftovers()
    await sweeping
    return new TemporaryDirectory(await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-${space}-`)))
  }

  /** Removes the directory. Can be called again. */
  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true, maxRetries: 3 })
    // removed from the list last, because the process may exit in the meantime
    paths.delete(this.path)
    if (paths.size === 0) process.off('exit', removeAll)
  }
}

/**
 * Returns the path of a directory: `path`, or that of a new temporary one. It is absolute, because child processes have other
 * working directories.
 */
export async function openDirectory(
  path: string | undefined,
  prefix: string,
): Promise<{ readonly directory: string; readonly temporary: TemporaryDirectory | null }> {
  if (path !== undefined) return { directory: resolve(path), temporary: null }
  const temporary = await TemporaryDirectory.create(prefix)
  return { directory: temporary.path, temporary }
}
