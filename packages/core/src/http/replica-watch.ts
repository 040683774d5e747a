import { CLOSE, decodePipeline, pipelineBody, replicationIndexOf } from '../codec/pipeline.ts'
import { REPLICA_WAIT_MS } from '../limits.ts'
import type { Http } from './http.ts'

/**
 * Watches a read that a replica answers only when it has come to an index. A database that was restored, or whose primary was
 * restarted, may count from the beginning: its index may never come there, and the answer would never come.
 * @param onDropped called when the index was dropped, so that the read can be sent without it @returns what ends the watch
 */
export function watchReplica(http: Http, index: string, onDropped: () => void): () => void {
  const check = async (): Promise<void> => {
    if (await dropIfBehind(http, index)) onDropped()
  }
  return http.clock.after(REPLICA_WAIT_MS, () => void check())
}

/** Drops an index when the server says that it has not come to it. @returns whether it is dropped, also by others */
export async function dropIfBehind(http: Http, index: string): Promise<boolean> {
  const { server } = http
  if (await server.isBehind(index, (wanted) => isBehind(http, wanted))) server.dropIndex(index)
  return server.hasDropped(index)
}

/** Whether the server, asked what it has, is not there yet. One that gives no answer may be. */
async function isBehind(http: Http, index: string): Promise<boolean> {
  const probe = pipelineBody(['{"type":"execute","stmt":{"sql":"select 1"}}', CLOSE])
  try {
    const options = { deadline: http.deadline(REPLICA_WAIT_MS), lane: null }
    const seen = replicationIndexOf(decodePipeline(await http.post('/v2/pipeline', probe, options)))
    return seen != null && BigInt(seen) < BigInt(index)
  } catch {
    return false
  }
}
