import { ProtocolError } from '../base/errors.ts'
import type { WireBatchResult, WirePipelineResponse, WireResult } from '../base/wire.ts'
import { parseAnswer } from './row-text.ts'

export const CLOSE = '{"type":"close"}'

/** Body of one HTTP request: operations on the stream of `baton`, or on a new one. */
export function pipelineBody(requests: readonly string[], baton: string | null = null): string {
  return `{${baton === null ? '' : `"baton":${JSON.stringify(baton)},`}"requests":[${requests.join()}]}`
}

/** Reads the answer. @throws ProtocolError when it is not one */
export function decodePipeline(text: string): WirePipelineResponse {
  let response: WirePipelineResponse | null
  try {
    response = parseAnswer(text)
  } catch (cause) {
    throw new ProtocolError(`the server's answer is not JSON: ${text.slice(0, 100)}`, { cause })
  }
  if (!Array.isArray(response?.results))
    throw new ProtocolError(`the server's answer has no results: ${text.slice(0, 100)}`)
  return response
}

/** State of the database that an operation has left or seen, where the server tells. */
export function replicationIndexOf(
  { results }: WirePipelineResponse,
  at = 0,
): string | number | null | undefined {
  // as it is read before anybody has looked whether the answer makes sense
  const own = results[at] as { response?: { result?: WireResult | WireBatchResult | null } | null } | null
  return own?.response?.result?.replication_index
}
