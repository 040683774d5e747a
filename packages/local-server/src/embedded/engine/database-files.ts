import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs'

/** The name the engine knows the database file by. */
export const MAIN_FILE = '/main.db'

const ERROR = 1
const FULL = 2

/**
 * The files the engine can reach: the database and its two journals, under names of their own. Whatever SQL says,
 * there is no name for anything else on the disk.
 */
export class DatabaseFiles {
  readonly #paths = new Map<string, string>()

  /** Says where the database file is; until then there are none. */
  use(path: string): void {
    for (const suffix of ['', '-wal', '-journal'])
      this.#paths.set(`${MAIN_FILE}${suffix}`, `${path}${suffix}`)
  }

  /** A descriptor; -1 when the file is not there, or the name is none of ours. */
  open(name: string, create: boolean): number {
    const path = this.#paths.get(name)
    if (path === undefined) return -1
    try {
      return openSync(path, 'r+')
    } catch (error) {
      if (!create || (error as NodeJS.ErrnoException).code !== 'ENOENT') return -1
    }
    try {
      return openSync(path, 'wx+', 0o600)
    } catch {
      return -1
    }
  }

  close(descriptor: number): void {
    closeSync(descriptor)
  }

  /** Bytes read, fewer at the end of the file; -1 for an error. */
  read(descriptor: number, into: Uint8Array, offset: number): number {
    try {
      let done = 0
      while (done < into.length) {
        const count = readSync(descriptor, into, done, into.length - done, offset + done)
        if (count === 0) break
        done += count
      }
      return done
    } catch {
      return -1
    }
  }

  /** 0 when all was written, 1 for an error, 2 when the disk is full. */
  write(descriptor: number, bytes: Uint8Array, offset: number): number {
    try {
      let done = 0
      while (done < bytes.length)
        done += writeSync(descriptor, bytes, done, bytes.length - done, offset + done)
      return 0
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      return code === 'ENOSPC' || code === 'EDQUOT' ? FULL : ERROR
    }
  }

  truncate(descriptor: number, sizeBytes: number): number {
    return failureOf(() => ftruncateSync(descriptor, sizeBytes))
  }

  sync(descriptor: number): number {
    return failureOf(() => fsyncSync(descriptor))
  }

  /** Size in bytes; -1 for an error. */
  size(descriptor: number): number {
    try {
      return fstatSync(descriptor).size
    } catch {
      return -1
    }
  }

  delete(name: string): number {
    const path = this.#paths.get(name)
    return path === undefined ? ERROR : failureOf(() => rmSync(path, { force: true }))
  }

  exists(name: string): boolean {
    const path = this.#paths.get(name)
    return path !== undefined && existsSync(path)
  }
}

function failureOf(run: () => void): number {
  try {
    run()
    return 0
  } catch {
    return ERROR
  }
}
