import { type EncodedStatement, rejectForeignKeys } from '../codec/statement.ts'
import type { Http } from '../http/http.ts'
import type { Coalescer } from '../request/coalescer.ts'
import {
  areReadOnly,
  batchPrefix,
  type ReadOptions,
  type Results,
  type StatementsCall,
} from '../request/queued-call.ts'
import { sendStateless } from '../request/send-stateless.ts'
import { SqlRequest } from '../request/sql-request.ts'
import { canShareConnection } from '../sql/statement-kind.ts'
import { ServerStream } from '../stream/server-stream.ts'

export interface RunContext {
  /** Lets an `autocommit` statement share a request with others, unless it may change its connection. */
  readonly coalescer?: Coalescer
  /** Whether it is the rest of a call that began before the client was closed. */
  readonly isContinuation?: boolean
}

/** Runs one statement (`autocommit`), or a batch that is its own transaction (`atomic`), in one request. */
// oxlint-disable-next-line max-params
export function run(
  http: Http,
  statements: EncodedStatement[],
  scope: 'autocommit' | 'atomic',
  options: ReadOptions,
  { coalescer, isContinuation = false }: RunContext = {},
): Promise<Results> {
  const { events, lifetime } = http
  // an empty batch sends nothing
  if (statements.length === 0) {
    lifetime.checkOpen(isContinuation, options.signal)
    return Promise.resolve([])
  }
  const isReadOnly = areReadOnly(statements, options)
  const prefix = scope === 'atomic' ? batchPrefix(isReadOnly, options) : []
  const deadline = http.deadline(options.timeoutMs)
  const call = { kind: 'statements' as const, statements, scope, prefix, isReadOnly, options, deadline }
  const send = async (queuedCall: StatementsCall): Promise<void> => {
    lifetime.begin(isContinuation)
    try {
      if (coalescer && canShareConnection((statements[0] as EncodedStatement).kind))
        await coalescer.send(queuedCall)
      else await sendStateless(http, [new SqlRequest([queuedCall])], { deadline, signal: options.signal })
    } finally {
      lifetime.end()
    }
  }
  return events.query(statements, null, () => {
    if (scope === 'autocommit')
      return new Promise((resolve, reject) => {
        send({ ...call, resolve, reject }).catch(reject)
      })
    if (options.foreignKeys !== 'off') rejectForeignKeys(statements)
    // counted now, and not by the stream, which sends its request some microtasks later, when the client may be closing
    lifetime.begin(isContinuation)
    const stream = new ServerStream(http, true)
    const results = stream.enqueue(call)
    // in the same tick, so that the request also closes the stream
    void stream.close()
    return results.finally(() => lifetime.end())
  })
}
