import { join } from 'node:path'
import { TemporaryDirectory } from '@batonsql/server-common/base'
import { type DatabaseAddress, type LocalServer, startLocalServer } from '../server/server.ts'

/** A function that fills the database that tests get copies of, or the path of an SQLite file to copy. */
export type Template = ((config: DatabaseAddress) => unknown) | string

/** The database of a test. */
export interface CreatedDatabase {
  readonly name: string
  readonly address: DatabaseAddress
}

/** A server whose databases are copies of templates. */
class SeededServer {
  readonly #server: LocalServer
  readonly #directory: TemporaryDirectory
  readonly #seeds = new Map<Template, Promise<string>>()
  #count = 0

  private constructor(server: LocalServer, directory: TemporaryDirectory) {
    this.#server = server
    this.#directory = directory
  }

  static async start(): Promise<SeededServer> {
    const directory = await TemporaryDirectory.create('baton-testing-')
    try {
      const server = await startLocalServer({ dataDirectory: join(directory.path, 'data') })
      return new SeededServer(server, directory)
    } catch (error) {
      await directory.remove()
      throw error
    }
  }

  /** Creates a database as a copy of a template, or empty. @throws Error with the name of a template that failed */
  async create(template: Template | undefined): Promise<CreatedDatabase> {
    const fromFile = template === undefined ? undefined : await this.#getSeed(template)
    const name = `test-${(this.#count += 1)}`
    const address = await this.#server.createDatabase(name, fromFile === undefined ? {} : { fromFile })
    return { name, address }
  }

  /** Removes a database, aborting requests and transactions that a test has left open. The next test does not wait for this. */
  discard({ name }: CreatedDatabase): void {
    // otherwise it is removed later with the server's directory
    void this.#server.removeDatabase(name).catch(() => {})
  }

  async close(): Promise<void> {
    await this.#server.close()
    await this.#directory.remove()
  }

  /** Returns the file of a template, which is created once. */
  #getSeed(template: Template): Promise<string> {
    let seed = this.#seeds.get(template)
    if (seed === undefined) {
      seed = typeof template === 'string' ? Promise.resolve(template) : this.#migrate(template)
      this.#seeds.set(template, seed)
    }
    return seed
  }

  async #migrate(template: Exclude<Template, string>): Promise<string> {
    const name = `template-${this.#seeds.size + 1}`
    const file = join(this.#directory.path, `${name}.db`)
    const address = await this.#server.createDatabase(name)
    try {
      await template(address)
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`useDatabase: the template "${template.name || 'template'}" failed: ${reason}`, {
        cause,
      })
    }
    await this.#server.exportDatabase(name, file)
    await this.#server.removeDatabase(name)
    return file
  }
}

let runningServer: Promise<SeededServer> | null = null
let userCount = 0

/**
 * Returns the server of this process, which is started for its first user. Each call must be followed by a call to
 * `releaseServer`.
 */
export function acquireServer(): Promise<SeededServer> {
  userCount += 1
  runningServer ??= SeededServer.start()
  return runningServer
}

/** Closes the server of this process when its last user has released it. */
export async function releaseServer(): Promise<void> {
  userCount -= 1
  if (userCount > 0) return
  const stopping = runningServer
  runningServer = null
  const server = await stopping?.catch(() => null) // the error has already been reported to its users
  await server?.close()
}
