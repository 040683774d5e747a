import type { DatabaseId } from '@batonsql/server-common/backend'
import { encodePipelineBody, type PipelineBody } from '@batonsql/server-common/hrana'
import { discard, readBody, type UpstreamResponse } from './exchange.ts'
import type { Upstream } from './upstream.ts'
import { READ_PERMISSIONS, type UpstreamPermissions, WRITE_PERMISSIONS } from './upstream-tokens.ts'

const PIPELINE = { method: 'POST', path: '/v3/pipeline', query: '' } as const

/** Requests that the back end itself sends to the server, with the gateway's own tokens: those of clients may have expired. */
export class InternalRequests {
  readonly #upstream: Upstream

  constructor(upstream: Upstream) {
    this.#upstream = upstream
  }

  /** Executes a script with write permission. The response, which may be an error, must be read or discarded. */
  async runScript(id: DatabaseId, sql: string): Promise<UpstreamResponse> {
    return await this.#send(id, WRITE_PERMISSIONS, {
      baton: null,
      requests: [{ type: 'sequence', sql, sqlId: null }],
    })
  }

  /**
   * Executes one statement with write permission, and returns the text of the response, in which the result may be an error.
   * @throws Error if the request fails
   */
  async fetchResult(id: DatabaseId, sql: string): Promise<string> {
    const statement = { sql, sqlId: null, args: [], namedArgs: [] }
    const response = await this.#send(id, WRITE_PERMISSIONS, {
      baton: null,
      requests: [{ type: 'execute', statement }],
    })
    const text = (await readBody(response)).toString('utf8')
    if (response.status !== 200) throw new Error(text)
    return text
  }

  /** Closes a stream of a client. */
  async closeStream(id: DatabaseId, baton: string): Promise<void> {
    const response = await this.#send(id, READ_PERMISSIONS, { baton, requests: [] })
    discard(response)
  }

  /** Sends a pipeline that closes its stream. */
  async #send(
    id: DatabaseId,
    permissions: UpstreamPermissions,
    { baton, requests }: PipelineBody,
  ): Promise<UpstreamResponse> {
    const body = encodePipelineBody({ baton, requests: [...requests, { type: 'close' }] })
    return await this.#upstream.sendOnce({ id, request: PIPELINE, permissions }, body)
  }
}
