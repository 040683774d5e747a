import { type EncodedStatement, rejectForeignKeys } from '../codec/statement.ts'
import type { Http } from '../http/http.ts'
import type { Coalescer } from '../request/coalescer.ts'
import { areReadOnly, type QueuedCall, type ReadOptions, type Results } from '../request/queued-call.ts'
import { sendStateless } from '../request/send-stateless.ts'
import { SqlRequest } from '../request/sql-request.ts'
import { canShareConnection } from '../sql/statement-kind.ts'
import { ServerStream } from '../stream/server-stream.ts'

export interface RunContext {
  /** Sends a statement together with others; absent if it must be sent alone. */
  readonly coalescer?: Coalescer
  /** Whether it is the rest of a call that began before the client was closed. */
  readonly isContinuation?: boolean
}

/** Runs a statement, or a batch that is its own transaction, in one request. */
// oxlint-disable-next-line max-params
export function run(
  http: Http,
  statements: EncodedStatement[],
  scope: 'autocommit' | 'atomic',
  options: ReadOptions,
  { coalescer, isContinuation }: RunContext = {},
): Promise<Results> {
  if (scope === 'atomic') {
    if (options.foreignKeys !== 'off') rejectForeignKeys(statements)
    // the request is sent some microtasks later, when the client may be closing
    http.lifetime.begin(isContinuation)
    // `true`: its request is part of the call that was just counted
    const stream = new ServerStream(http, true)
    // emits the events of the query itself
    const results = stream.run(statements, scope, options)
    // in the same tick, so that the request also closes the stream
    void stream.close()
    return results.finally(() => http.lifetime.end())
  }
  const send = async (call: QueuedCall): Promise<void> => {
    const { deadline } = call
    http.lifetime.begin(isContinuation)
    try {
      if (coalescer && canShareConnection((statements[0] as EncodedStatement).kind))
        await coalescer.send(call)
      else await sendStateless(http, [new SqlRequest([call])], { deadline, signal: options.signal })
    } finally {
      http.lifetime.end()
    }
  }
  return http.events.query(
    statements,
    null,
    () =>
      new Promise((resolve, reject) => {
        send({
          statements,
          scope,
          prefix: [],
          isReadOnly: areReadOnly(statements, options),
          options,
          deadline: http.deadline(options.timeoutMs),
          resolve,
          reject,
        }).catch(reject)
      }),
  )
}
