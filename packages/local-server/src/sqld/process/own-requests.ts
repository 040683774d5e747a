import type http from 'node:http'
import type { DatabaseId } from '../../backend/backend.ts'
import type { PipelineBody } from '../../hrana/request-decoder.ts'
import { encodePipelineBody } from '../../hrana/request-encoder.ts'
import { readBytes } from '../../http/service-request.ts'
import { type OnwardRights, READ_RIGHTS, WRITE_RIGHTS } from './onward-tokens.ts'
import type { Upstream } from './upstream.ts'

const OWN_REQUEST = { method: 'POST', path: '/v3/pipeline', query: '' } as const

/** What the back end asks of the server by itself. */
export class OwnRequests {
  readonly #upstream: Upstream

  constructor(upstream: Upstream) {
    this.#upstream = upstream
  }

  /** Runs a script with the right to write. */
  async run(id: DatabaseId, sql: string): Promise<http.IncomingMessage> {
    return await this.#ask(id, WRITE_RIGHTS, {
      baton: null,
      requests: [{ type: 'sequence', sql, sqlId: null }],
    })
  }

  /** Runs one statement, and gives the text of the answer. */
  async query(id: DatabaseId, sql: string): Promise<string> {
    const statement = { sql, sqlId: null, args: [], namedArgs: [] }
    const answer = await this.#ask(id, WRITE_RIGHTS, {
      baton: null,
      requests: [{ type: 'execute', statement }],
    })
    const text = (await readBytes(answer)).toString('utf8')
    if (answer.statusCode !== 200) throw new Error(text)
    return text
  }

  /** Ends a stream: the client's token may be good no longer. */
  async closeStream(id: DatabaseId, baton: string): Promise<void> {
    const answer = await this.#ask(id, READ_RIGHTS, { baton, requests: [] })
    answer.resume()
  }

  /** Sends a pipeline, the last of its stream. */
  async #ask(
    id: DatabaseId,
    rights: OnwardRights,
    { baton, requests }: PipelineBody,
  ): Promise<http.IncomingMessage> {
    const body = Buffer.from(encodePipelineBody({ baton, requests: [...requests, { type: 'close' }] }))
    return await this.#upstream.sendOnce({ id, request: OWN_REQUEST, rights }, body)
  }
}
