import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A directory that is gone when it is removed, or at the latest when this process calls `process.exit` or ends. */
export class TemporaryDirectory {
  readonly path: string
  readonly #removeAtExit: () => void

  private constructor(path: string) {
    this.path = path
    this.#removeAtExit = () => {
      try {
        rmSync(path, { recursive: true, force: true, maxRetries: 3 })
      } catch {
        // the process ends: there is no one to report it to
      }
    }
    process.once('exit', this.#removeAtExit)
  }

  /** @param prefix what its name begins with */
  static async create(prefix: string): Promise<TemporaryDirectory> {
    return new TemporaryDirectory(await mkdtemp(join(tmpdir(), prefix)))
  }

  async remove(): Promise<void> {
    process.off('exit', this.#removeAtExit)
    await rm(this.path, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** The directory that was named, or a temporary one. */
export async function openDirectory(
  named: string | undefined,
  prefix: string,
): Promise<{ readonly directory: string; readonly temporary: TemporaryDirectory | null }> {
  if (named !== undefined) return { directory: named, temporary: null }
  const temporary = await TemporaryDirectory.create(prefix)
  return { directory: temporary.path, temporary }
}
