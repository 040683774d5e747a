import { createHash, randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, join } from 'node:path'
import type { Tarball } from './tarballs.ts'

/**
 * The registry as it will be once our packages are published: npm and pnpm request `@batonsql/…` from it, and all other packages
 * from the registry for which they are configured.
 */
export class ScopedRegistry {
  readonly #server: Server
  /** A unique path, so that no cache has a package that an earlier run packed under the same version. */
  readonly #path = `/${randomUUID()}/`
  readonly #responses = new Map<string, string | Buffer>()

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(tarballs: readonly Tarball[]): Promise<ScopedRegistry> {
    const server = createServer((request, response) => {
      const reply = registry.#responses.get(decodeURIComponent(request.url ?? ''))
      response.writeHead(reply === undefined ? 404 : 200).end(reply)
    })
    const registry = new ScopedRegistry(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    for (const tarball of tarballs) registry.#publish(tarball)
    return registry
  }

  get #url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}${this.#path}`
  }

  #publish({ file, manifest }: Tarball): void {
    const { name, version } = manifest
    const bytes = readFileSync(file)
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`
    const dist = { tarball: this.#url + basename(file), integrity }
    const description = {
      name,
      'dist-tags': { latest: version },
      versions: { [version]: { ...manifest, dist } },
    }
    this.#responses.set(this.#path + name, JSON.stringify(description))
    this.#responses.set(this.#path + basename(file), bytes)
  }

  /** Configures npm and pnpm in a folder to use it. */
  configure(folder: string): void {
    writeFileSync(join(folder, '.npmrc'), `@batonsql:registry=${this.#url}\n`)
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
