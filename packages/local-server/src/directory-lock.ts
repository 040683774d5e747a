import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { processIdentity } from './process-identity.ts'

interface LockContent {
  readonly pid: number
  readonly identity: string | null
}

/**
 * Keeps two servers off one data directory: the engines would not complain and lose data. A lock whose owner is gone
 * is taken over.
 */
export class DirectoryLock implements AsyncDisposable {
  readonly #path: string

  private constructor(path: string) {
    this.#path = path
  }

  static async acquire(directory: string): Promise<DirectoryLock> {
    await mkdir(directory, { recursive: true })
    const path = join(directory, 'baton.lock')
    for (let attempt = 0; attempt < 5; attempt += 1) {
      if (await tryCreate(path)) return new DirectoryLock(path)
      const owner = await readLock(path)
      if (owner && owner.identity !== null && (await processIdentity(owner.pid)) === owner.identity) {
        throw new Error(`the directory ${directory} is in use by process ${owner.pid}`)
      }
      // move it away before removing it: of two processes that find it stale only one can rename it
      const stale = `${path}.${process.pid}.stale`
      await rename(path, stale).catch(ignoreMissing)
      await rm(stale, { force: true })
    }
    throw new Error(`the lock of directory ${directory} is contended`)
  }

  async release(): Promise<void> {
    await rm(this.#path, { force: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}

async function tryCreate(path: string): Promise<boolean> {
  try {
    const file = await open(path, 'wx')
    const content: LockContent = { pid: process.pid, identity: await processIdentity(process.pid) }
    await file.writeFile(JSON.stringify(content))
    await file.close()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

async function readLock(path: string): Promise<LockContent | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as LockContent
  } catch {
    return null // gone, or written half: its owner died in between
  }
}

function ignoreMissing(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
}
