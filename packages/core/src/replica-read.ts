import { TransportError } from './errors.ts'
import type { CallOptions, Http } from './http.ts'
import { REPLICA_WAIT_MS } from './limits.ts'
import { CLOSE, decodePipeline, pipelineBody, replicationIndexOf } from './pipeline.ts'

/**
 * Sends what a replica answers only when it has come to the state that this client has seen. A database that was restored,
 * or whose primary was started anew, may count from the beginning and never come to it, and the answer would never come:
 * the index is dropped then, and a read is sent once more.
 * @param isRead whether it does no harm to send it twice
 */
export async function sendWithIndex<T>(
  http: Http,
  { isRead, ...options }: CallOptions & { readonly isRead: boolean },
  send: (index: string | null, options: CallOptions) => Promise<T>,
): Promise<T> {
  const { server } = http
  const index = server.replicationIndex
  if (index === null) return await send(null, options)
  const { signal, timeoutMs = http.config.requestTimeoutMs } = options
  const started = Date.now()
  const stuck = isRead ? new AbortController() : null
  const giveUp = async (): Promise<void> => {
    if (!(await isBehind(http, index))) return
    server.dropIndex(index)
    stuck?.abort(stuck)
  }
  const timer = stuck && setTimeout(() => void giveUp(), REPLICA_WAIT_MS)
  try {
    if (!stuck) return await send(index, options)
    return await send(index, {
      ...options,
      signal: signal ? AbortSignal.any([signal, stuck.signal]) : stuck.signal,
    })
  } catch (error) {
    if (error === stuck)
      return await send(null, { ...options, timeoutMs: timeoutMs - (Date.now() - started) })
    if (error instanceof TransportError && error.code === 'TIMEOUT') void giveUp()
    throw error
  } finally {
    if (timer) clearTimeout(timer)
  }
}

/** Whether the server, asked what it has, is not there yet. One that gives no answer may be. */
async function isBehind(http: Http, index: string): Promise<boolean> {
  const probe = pipelineBody(['{"type":"execute","stmt":{"sql":"select 1"}}', CLOSE])
  try {
    const text = await http.post('/v2/pipeline', probe, { timeoutMs: REPLICA_WAIT_MS, isHeld: true })
    const seen = replicationIndexOf(decodePipeline(text))
    return seen != null && BigInt(seen) < BigInt(index)
  } catch {
    return false
  }
}
