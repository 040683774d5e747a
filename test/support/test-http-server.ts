import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Base of the HTTP servers of tests: listens on a free port of this machine. */
export class TestHttpServer implements AsyncDisposable {
  // longer than a test can block this process, which also runs the client
  readonly http = createServer({ keepAliveTimeout: 300_000 })

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.http.listen(0, '127.0.0.1', resolve))
    return this
  }

  get url(): string {
    return `http://127.0.0.1:${(this.http.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.http.closeAllConnections()
    await new Promise((resolve) => this.http.close(resolve))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
