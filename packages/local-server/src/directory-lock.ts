import { randomUUID } from 'node:crypto'
import {
  constants,
  copyFile,
  link,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { processIdentity } from './process-identity.ts'

interface LockContent {
  readonly pid: number
  readonly identity: string | null
  /** Different for every lock that ever was. */
  readonly token: string
}

const LOCK_NAME = 'baton.lock'
const ATTEMPTS = 100
const RETRY_MS = 10
/** How long a copy of a lock file, where there are no links, may take. */
const COPY_ATTEMPTS = 25
/** What a file system without hard links answers. */
const NO_LINKS: ReadonlySet<string | undefined> = new Set([
  'EPERM',
  'ENOTSUP',
  'EOPNOTSUPP',
  'ENOSYS',
  'EMLINK',
])

/**
 * Keeps two servers off one data directory: the engines would not complain and lose data. A lock whose owner is gone
 * is taken over.
 */
export class DirectoryLock implements AsyncDisposable {
  readonly #path: string
  readonly #token: string

  private constructor(path: string, token: string) {
    this.#path = path
    this.#token = token
  }

  /** Rejects when a living process has the directory, or when it cannot be written. */
  static async acquire(directory: string): Promise<DirectoryLock> {
    await prepareDirectory(directory)
    const path = join(directory, LOCK_NAME)
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const outcome = await acquireFile(path)
      if (outcome.type === 'taken') {
        await removeOldClaims(directory, outcome.token)
        return new DirectoryLock(path, outcome.token)
      }
      if (outcome.type === 'owned')
        throw new Error(`the directory ${directory} is in use by process ${outcome.pid}`)
      await sleep(RETRY_MS)
    }
    throw new Error(`the lock of directory ${directory} is contended`)
  }

  async release(): Promise<void> {
    const content = await readLock(this.#path)
    if (content?.token === this.#token) await rm(this.#path, { force: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}

type Outcome =
  | { readonly type: 'taken'; readonly token: string }
  | { readonly type: 'owned'; readonly pid: number }
  | { readonly type: 'contended' }

/**
 * Creates a lock file, complete from the first moment on. One whose owner is gone is replaced by the one process that
 * holds the claim to it, a lock file of its own that has the stale lock's token in its name: nobody else can have put
 * another lock there meanwhile.
 */
async function acquireFile(path: string): Promise<Outcome> {
  const token = randomUUID()
  const draft = `${path}.${token}.new`
  const content: LockContent = { pid: process.pid, identity: await processIdentity(process.pid), token }
  await writeFile(draft, JSON.stringify(content))
  try {
    if (await linkNew(draft, path)) return { type: 'taken', token }
    const owner = await readLock(path)
    if (owner === null) return { type: 'contended' }
    if (await isAlive(owner)) return { type: 'owned', pid: owner.pid }
    const claimPath = `${path}.${owner.token}`
    const claim = await acquireFile(claimPath)
    if (claim.type !== 'taken') return { type: 'contended' }
    try {
      if ((await readLock(path))?.token !== owner.token) return { type: 'contended' }
      await rename(draft, path)
      return { type: 'taken', token }
    } finally {
      await rm(claimPath, { force: true })
    }
  } finally {
    await rm(draft, { force: true })
  }
}

/** False when there is such a file already. */
async function linkNew(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return false
    if (!NO_LINKS.has(code)) throw error
  }
  try {
    await copyFile(draft, path, constants.COPYFILE_EXCL)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

async function isAlive({ pid, identity }: LockContent): Promise<boolean> {
  return identity !== null && (await processIdentity(pid)) === identity
}

/** Null when there is no such file. One that is not complete, or of an earlier version, has no living owner. */
async function readLock(path: string): Promise<LockContent | null> {
  try {
    // complete at the latest when whoever copies it has had time to
    for (let attempt = 0; ; attempt += 1) {
      const content = parseLock(await readFile(path, 'utf8'))
      if (content !== null) return content
      if (attempt === COPY_ATTEMPTS) return { pid: 0, identity: null, token: 'incomplete' }
      await sleep(RETRY_MS)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

function parseLock(text: string): LockContent | null {
  try {
    const { pid, identity, token = 'old' } = JSON.parse(text) as Partial<LockContent>
    return typeof pid === 'number' && (typeof identity === 'string' || identity === null)
      ? { pid, identity, token: token.replace(/[^\w-]/g, '') }
      : null
  } catch {
    return null
  }
}

/** Left behind by processes that were killed while they took a lock over. */
async function removeOldClaims(directory: string, token: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const isClaim = name.startsWith(`${LOCK_NAME}.`) && !name.endsWith('.new') && !name.includes(token)
    if (isClaim) await rm(join(directory, name), { force: true })
  }
}

async function prepareDirectory(directory: string): Promise<void> {
  const probe = join(directory, `${LOCK_NAME}.${randomUUID()}.new`)
  try {
    await makeDirectory(resolve(directory))
    await writeFile(probe, '')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`the directory ${directory} cannot be written: ${reason}`, { cause: error })
  } finally {
    await rm(probe, { force: true }).catch(() => {})
  }
}

/** As `mkdir` with `recursive`, which goes round in circles for ever where the system says that a parent is missing. */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    const parent = dirname(path)
    if (code !== 'ENOENT' || parent === path || (await exists(parent))) throw error
    await makeDirectory(parent)
    await makeDirectory(path)
  }
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  )
}
