import type { Agent, IncomingMessage } from 'node:http'
import type { FailureKind } from '../server/failure-options.ts'
import type { CreatedDatabase, FailureData, TestServer } from './test-server.ts'

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

  /** @param url where the server receives calls; other processes cannot guess it */
  constructor(url: string) {
    this.#url = url
    this.#agent = new (process.getBuiltinModule('node:http').Agent)({ keepAlive: true })
  }

  async take(file: string | null): Promise<CreatedDatabase> {
    return (await this.#call('take', file)) as CreatedDatabase
  }

  async discard(name: string): Promise<void> {
    await this.#call('discard', name)
  }

  async export(name: string, file: string): Promise<void> {
    await this.#call('export', name, file)
  }

  async fail(name: string, kind: FailureKind, options: FailureData): Promise<number> {
    return (await this.#call('fail', name, kind, options)) as number
  }

  async countFailed(failure: number): Promise<number> {
    return (await this.#call('countFailed', failure)) as number
  }

  async removeFailure(failure: number): Promise<void> {
    await this.#call('removeFailure', failure)
  }

  /** Closes nothing: other processes use the server, and idle connections do not keep this one alive. */
  async close(): Promise<void> {}

  async #call(operation: Operation, ...values: readonly unknown[]): Promise<unknown> {
    const reply = JSON.parse(await this.#post(JSON.stringify({ operation, values }))) as RunServerReply
    if ('error' in reply) throw new Error(reply.error)
    return reply.result
  }

  #post(body: string): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const fail = (cause: Error): void =>
      reject(
        new Error(
          `useDatabase: the test server of this run (${RUN_SERVER}) does not respond: ${cause.message}`,
          {
            cause,
          },
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
