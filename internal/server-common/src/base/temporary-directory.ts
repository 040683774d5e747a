import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

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

/** A temporary directory, removed explicitly or when this process exits, but not if a signal without a handler ends it. */
export class TemporaryDirectory {
  readonly path: string

  private constructor(path: string) {
    this.path = path
    // all share one listener: Node.js warns about more than ten
    if (paths.size === 0) process.once('exit', removeAll)
    paths.add(path)
  }

  /** @param prefix prefix of its name */
  static async create(prefix: string): Promise<TemporaryDirectory> {
    return new TemporaryDirectory(await mkdtemp(join(tmpdir(), prefix)))
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
