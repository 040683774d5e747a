import { InsertedRowids } from '../codec/inserted-rowids.ts'
import { CLOSE, decodePipeline, pipelineBody, replicationIndexOf } from '../codec/pipeline.ts'
import type { Http, SendOptions } from '../http/http.ts'
import type { Lane } from '../http/lane.ts'
import { sendWithIndex } from '../http/replica-read.ts'
import type { SqlRequest } from '../stream/sql-request.ts'

/**
 * Sends operations, in their order, in one HTTP request on a stream that ends with it, and hands out what each returned.
 * Rejects when there is no answer.
 * @param writing where it queues when it may have to wait for the write lock
 */
export async function sendStateless(
  http: Http,
  operations: readonly SqlRequest[],
  call: SendOptions,
  writing: Lane = http.writes,
): Promise<void> {
  const isRead = operations.every((operation) => operation.isRead)
  const writes = operations.some((operation) => operation.writes)
  const text = await sendWithIndex(http, isRead, call, (index, options) => {
    // what comes after the first sees at least what that saw
    const parts = operations.map((operation, at) => operation.encode(false, at === 0 ? index : null))
    return http.post('/v2/pipeline', pipelineBody([...parts, CLOSE]), {
      ...options,
      isRepeatable: isRead,
      lane: writes ? writing : http.reads,
      // the request ends its stream by itself
      onLate: writes ? (readAnswer) => readAnswer() : undefined,
    })
  })
  const response = decodePipeline(text)
  const context = { intMode: http.config.intMode, rowids: new InsertedRowids() }
  for (const [at, operation] of operations.entries()) {
    http.server.sawIndex(replicationIndexOf(response, at))
    operation.settle(response.results[at], context)
  }
}
