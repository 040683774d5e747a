import { CLOSE, decodePipeline, pipelineBody, replicationIndexOf } from '../codec/pipeline.ts'
import { TransportError } from '../errors.ts'
import { REPLICA_WAIT_MS } from '../limits.ts'
import type { Http, SendOptions } from './http.ts'

/** Why a read is given up that waits for an index which will not come. */
const DROPPED = Symbol('dropped')

/**
 * Sends what a replica answers only when it has caught up with what this client has seen. A database that was restored, or
 * whose primary was restarted, may count from the beginning; its index may never catch up, and the answer would never come:
 * the index is dropped then, and a read is sent once more.
 * @param isRead whether it does no harm to send it twice
 */
export async function sendWithIndex<T>(
  http: Http,
  isRead: boolean,
  call: SendOptions,
  send: (index: string | null, options: SendOptions) => Promise<T>,
): Promise<T> {
  const { server } = http
  const index = server.replicationIndex
  if (index === null) return await send(null, call)
  const giveUp = async (): Promise<void> => {
    if (await server.isBehind(index, (wanted) => isBehind(http, wanted))) server.dropIndex(index)
  }
  let giveUpRequest: ((reason: unknown) => void) | undefined
  const stopIfDropped = (): void => {
    if (server.hasDropped(index)) giveUpRequest?.(DROPPED)
  }
  let stopTimer: (() => void) | undefined
  const onSend: SendOptions['onSend'] = (giveUpThis) => {
    call.onSend?.(giveUpThis)
    giveUpRequest = giveUpThis
    // dropped while this one queued
    stopIfDropped()
    stopTimer?.()
    stopTimer = http.clock.after(REPLICA_WAIT_MS, () => void giveUp().then(stopIfDropped))
  }
  try {
    return await send(index, isRead ? { ...call, onSend } : call)
  } catch (error) {
    if (error === DROPPED) return await sendWithIndex(http, isRead, call, send)
    if (error instanceof TransportError && error.code === 'TIMEOUT') void giveUp()
    throw error
  } finally {
    stopTimer?.()
  }
}

/** Whether the server, asked what it has, is not there yet. One that gives no answer may be. */
async function isBehind(http: Http, index: string): Promise<boolean> {
  const probe = pipelineBody(['{"type":"execute","stmt":{"sql":"select 1"}}', CLOSE])
  try {
    const text = await http.post('/v2/pipeline', probe, {
      deadline: http.deadline(REPLICA_WAIT_MS),
      lane: null,
    })
    const seen = replicationIndexOf(decodePipeline(text))
    return seen != null && BigInt(seen) < BigInt(index)
  } catch {
    return false
  }
}
