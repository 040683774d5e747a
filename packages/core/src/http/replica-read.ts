import { CLOSE, decodePipeline, pipelineBody, replicationIndexOf } from '../codec/pipeline.ts'
import { TransportError } from '../errors.ts'
import { REPLICA_WAIT_MS } from '../limits.ts'
import type { Http, SendOptions } from './http.ts'

/**
 * Sends what a replica answers only when it has come to the state that this client has seen. A database that was restored,
 * or whose primary was started anew, may count from the beginning and never come to it, and the answer would never come:
 * the index is dropped then, and a read is sent once more.
 * @param isRead whether it does no harm to send it twice
 */
export async function sendWithIndex<T>(
  http: Http,
  given: SendOptions & { readonly isRead: boolean },
  send: (index: string | null, options: SendOptions) => Promise<T>,
): Promise<T> {
  const { isRead, ...call } = given
  const { server } = http
  const index = server.replicationIndex
  if (index === null) return await send(null, call)
  const { signal, started = performance.now() } = call
  const giveUp = async (): Promise<void> => {
    if (await server.isBehind(index, (wanted) => isBehind(http, wanted))) server.dropIndex(index)
  }
  const stuck = new AbortController()
  const stopIfDropped = (): void => {
    if (server.hasDropped(index)) stuck.abort(stuck)
  }
  let timer: ReturnType<typeof setTimeout> | undefined
  const onLeave = (): void => {
    // dropped while this one waited in line
    stopIfDropped()
    clearTimeout(timer)
    timer = setTimeout(() => void giveUp().then(stopIfDropped), REPLICA_WAIT_MS)
  }
  try {
    if (!isRead) return await send(index, call)
    const either = signal ? AbortSignal.any([signal, stuck.signal]) : stuck.signal
    return await send(index, { ...call, signal: either, onLeave })
  } catch (error) {
    if (error === stuck) return await sendWithIndex(http, { ...given, started }, send)
    if (error instanceof TransportError && error.code === 'TIMEOUT') void giveUp()
    throw error
  } finally {
    clearTimeout(timer)
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
