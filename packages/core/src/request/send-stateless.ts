import { asNotApplied } from '../base/errors.ts'
import { V3_GUARD } from '../codec/guard.ts'
import { InsertedRowids } from '../codec/inserted-rowids.ts'
import { CLOSE, decodePipeline, pipelineBody, readReplicationIndex } from '../codec/pipeline.ts'
import type { Http } from '../http/http.ts'
import type { Limiter } from '../http/limiter.ts'
import type { RequestOptions } from '../http/message.ts'
import { READ, WRITE } from '../http/policies.ts'
import type { QueuedCall } from './queued-call.ts'
import type { SqlRequest } from './sql-request.ts'

/**
 * Sends calls of one statement each, with the scope `autocommit`, in order in one request, on a stream that ends with it, and settles each
 * with its own result.
 * @param operations the caller may remove one from this array until it is encoded; after a failed attempt, they are encoded again
 * @param writeLimiter limits the requests that may wait for the write lock
 * @throws the request's error if there is no usable response; the calls are then not settled
 */
export async function sendStateless(
  http: Http,
  operations: readonly SqlRequest[],
  call: Pick<RequestOptions, 'deadline' | 'signal'>,
  writeLimiter: Limiter = http.writes,
): Promise<void> {
  const isReadOnly = operations.every((operation) => operation.isReadOnly)
  // only the first operation needs the index: the later ones see at least the same state
  const encode = (index: string | null): string =>
    pipelineBody([
      // a call outside of transactions has no use for a guard
      ...operations.map((operation, position) => operation.encode(V3_GUARD, position === 0 ? index : null)),
      CLOSE,
    ])
  const options = {
    ...call,
    limiter: isReadOnly ? http.reads : writeLimiter,
    needsIndex: true,
    policy: isReadOnly ? READ : WRITE,
    onRetry: () => {
      for (const operation of operations) operation.isEncoded = false
    },
  }
  const result = await http.exchange('/v2/pipeline', encode, options, decodePipeline)
  if (!result.isOk) throw isReadOnly ? asNotApplied(result.error) : result.error
  const response = result.value
  const context = { intMode: http.config.intMode, rowids: new InsertedRowids() }
  for (const [index, operation] of operations.entries()) {
    http.replica.record(readReplicationIndex(response, index))
    const [call] = operation.calls as [QueuedCall]
    try {
      const { outcomes: [outcome] = [] } = operation.read(response.results[index], context)
      if (outcome?.results) call.resolve(outcome.results)
      else call.reject(outcome?.error)
    } catch (error) {
      call.reject(call.isReadOnly ? asNotApplied(error) : error)
    }
  }
}
