import { ProtocolError } from '../base/errors.ts'
import type { WireBatchResult, WirePipelineResponse, WireResult } from '../base/wire.ts'
import { parseResponse } from './row-text.ts'

export const CLOSE = '{"type":"close"}'

/** Encodes the body of one request: operations on the stream of `baton`, or on a new one. */
export function pipelineBody(requests: readonly string[], baton: string | null = null): string {
  return `{${baton === null ? '' : `"baton":${JSON.stringify(baton)},`}"requests":[${requests.join()}]}`
}

/** Reads a response. @throws ProtocolError if it is malformed */
export function decodePipeline(text: string): WirePipelineResponse {
  let response: WirePipelineResponse | null
  try {
    response = parseResponse(text)
  } catch (cause) {
    throw new ProtocolError(`the response is not JSON: ${text.slice(0, 100)}`, { cause })
  }
  if (!Array.isArray(response?.results))
    throw new ProtocolError(`the response has no results: ${text.slice(0, 100)}`)
  return response
}

/** Returns the replication index that an operation wrote or saw, if the server sends it. */
export function readReplicationIndex(
  { results }: WirePipelineResponse,
  resultIndex = 0,
): string | number | null | undefined {
  // read before the response is validated: any part may be missing
  const result = results[resultIndex] as {
    response?: { result?: WireResult | WireBatchResult | null } | null
  } | null
  return result?.response?.result?.replication_index
}
