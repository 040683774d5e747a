import type { Agent, IncomingMessage } from 'node:http'
import type { TestServer } from './test-server.ts'

/** Names the server of the run for the processes of a test runner. */
export const RUN_SERVER = 'BATON_TEST_SERVER'

/** Operations of a {@link TestServer} that other processes may call. */
export const OPERATIONS = ['take', 'discard', 'export', 'fail', 'countFailed', 'removeFailure'] as const
export type Operation = (typeof OPERATIONS)[number]

export interface RunServerCall {
  readonly operation: Operation
  readonly values: readonly unknown[]
}

export type RunServerReply = { readonly result?: unknown } | { readonly error: string }

/** Calls the server that all processes of a test run share. */
export class RunServer implements TestServer {
  readonly #url: string
  readonly #agent: Agent
  readonly take = this.#remote('take')
  readonly discard = this.#remote('discard')
  readonly export = this.#remote('export')
  readonly fail = this.#remote('fail')
  readonly countFailed = this.#remote('countFailed')
  readonly removeFailure = this.#remote('removeFailure')

  /** @param url where the server receives calls; other processes cannot guess it */
  constructor(url: string) {
    this.#url = url
    this.#agent = new (process.getBuiltinModule('node:http').Agent)({ keepAlive: true })
  }

  /** Closes nothing: other processes use the server, and idle connections do not keep this one alive. */
  async close(): Promise<void> {}

  #remote<Name extends Operation>(operation: Name): TestServer[Name] {
    const call = async (...values: readonly unknown[]): Promise<unknown> => {
      const reply = JSON.parse(await this.#post(JSON.stringify({ operation, values }))) as RunServerReply
      if ('error' in reply) throw new Error(reply.error)
      return reply.result
    }
    return call as TestServer[Name]
  }

  #post(body: string): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const fail = (cause: Error): void =>
      reject(
        new Error(
          `useDatabase: the test server of this run (${RUN_SERVER}) does not respond: ${cause.message}`,
          { cause },
        ),
      )
    const receive = (response: IncomingMessage): void => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => (text += part))
      response.once('end', () => resolve(text)).once('error', fail)
    }
    const options = { method: 'POST', agent: this.#agent }
    process.getBuiltinModule('node:http').request(this.#url, options, receive).once('error', fail).end(body)
    return promise
  }
}
