import { createHash, randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { TestHttpServer } from '../support/test-http-server.ts'
import type { Tarball } from './tarballs.ts'

/**
 * The registry as it will be once our packages are published: npm and pnpm request `@batonsql/…` from it, and all other packages
 * from the registry for which they are configured.
 */
export class ScopedRegistry extends TestHttpServer {
  /** A unique path, so that no cache has a package that an earlier run packed under the same version. */
  readonly #path = `/${randomUUID()}/`
  readonly #responses = new Map<string, string | Buffer>()

  static async start(tarballs: readonly Tarball[]): Promise<ScopedRegistry> {
    const registry = await new ScopedRegistry().listen()
    registry.http.on('request', (request, response) => {
      const reply = registry.#responses.get(decodeURIComponent(request.url ?? ''))
      response.writeHead(reply === undefined ? 404 : 200).end(reply)
    })
    for (const tarball of tarballs) registry.#publish(tarball)
    return registry
  }

  override get url(): string {
    return super.url + this.#path
  }

  #publish({ file, manifest }: Tarball): void {
    const { name, version } = manifest
    const bytes = readFileSync(file)
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`
    const dist = { tarball: this.url + basename(file), integrity }
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
    writeFileSync(join(folder, '.npmrc'), `@batonsql:registry=${this.url}\n`)
  }
}
