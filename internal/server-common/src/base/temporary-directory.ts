import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A temporary directory, removed explicitly or when this process exits. */
export class TemporaryDirectory {
  readonly path: string
  readonly #removeAtExit: () => void

  private constructor(path: string) {
    this.path = path
    this.#removeAtExit = () => {
      try {
        rmSync(path, { recursive: true, force: true, maxRetries: 3 })
      } catch {
        // errors during exit cannot be reported
      }
    }
    process.once('exit', this.#removeAtExit)
  }

  /** @param prefix prefix of its name */
  static async create(prefix: string): Promise<TemporaryDirectory> {
    return new TemporaryDirectory(await mkdtemp(join(tmpdir(), prefix)))
  }

  async remove(): Promise<void> {
    process.off('exit', this.#removeAtExit)
    await rm(this.path, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** Opens the given directory, or a temporary one. */
export async function openDirectory(
  named: string | undefined,
  prefix: string,
): Promise<{ readonly directory: string; readonly temporary: TemporaryDirectory | null }> {
  if (named !== undefined) return { directory: named, temporary: null }
  const temporary = await TemporaryDirectory.create(prefix)
  return { directory: temporary.path, temporary }
}
