import type { Transcript, TranscriptStep } from './transcript.ts'

/** When the client of a case disconnected, in ms after its request. The recordings do not contain this. */
const DISCONNECTS_AFTER_MS: Readonly<Record<number, number>> = {
  92: 400,
  211: 300,
  226: 500,
  259: 500,
  260: 400,
  261: 500,
  262: 500,
  263: 500,
}
/** How long a stream of events was read in the recording, if longer than the default. */
const LISTEN_MS: Readonly<Record<number, number>> = { 124: 31_000 }
/** The baton that the recording of a case calls `{{c}}`. */
const BATON_C: Readonly<Record<number, string>> = { 100: '<baton:2>', 257: '<baton:2>' }
/** How long the last step waited for steps in the background. */
const FINAL_WAIT_MS: Readonly<Record<number, number>> = { 258: 4_500 }

/** Completes a case with what its recording omits or abbreviates. */
export function completeTranscript(transcript: Transcript): Transcript {
  const { id, steps } = transcript
  const completeSteps = steps.map((step, index) => {
    const { request, response } = step
    if (request === undefined) return step // an action of the recorder, such as a restart
    const hasDisconnected = response.aborted_by_client === true || response.end?.startsWith('broken') === true
    const finalWaitMs = index === steps.length - 1 ? FINAL_WAIT_MS[id] : undefined
    return {
      ...step,
      ...(request.body !== undefined && {
        request: { ...request, body: expandBody(request.body, BATON_C[id]) },
      }),
      ...(hasDisconnected &&
        DISCONNECTS_AFTER_MS[id] !== undefined && { disconnects_after_ms: DISCONNECTS_AFTER_MS[id] }),
      ...(LISTEN_MS[id] !== undefined && { listen_ms: LISTEN_MS[id] }),
      ...(finalWaitMs !== undefined && { after_wait_ms: finalWaitMs }),
    } satisfies TranscriptStep
  })
  return { ...transcript, steps: completeSteps }
}

function expandBody(body: string, baton = ''): string {
  const nested = /^<(\d+) nested `not`>$/.exec(body)?.[1]
  if (nested !== undefined) return createNestedCondition(Number(nested))
  if (body === '<51 store_sql requests, close>') {
    const storeRequests = Array.from({ length: 51 }, (_, id) => ({
      type: 'store_sql',
      sql_id: id,
      sql: 'SELECT 1',
    }))
    return JSON.stringify({ requests: [...storeRequests, { type: 'close' }] })
  }
  if (body === '<batch of 10,000 × SELECT 1>') {
    const steps = Array.from({ length: 10_000 }, () => ({ stmt: { sql: 'SELECT 1' } }))
    return JSON.stringify({ requests: [{ type: 'batch', batch: { steps } }, { type: 'close' }] })
  }
  return body.replace('{{c}}', baton)
}

function createNestedCondition(depth: number): string {
  const innermost = '{"type":"ok","step":0}'
  const condition = `${'{"type":"not","cond":'.repeat(depth)}${innermost}${'}'.repeat(depth)}`
  const steps = `{"stmt":{"sql":"SELECT 1"}},{"stmt":{"sql":"SELECT 2"},"condition":${condition}}`
  return `{"requests":[{"type":"batch","batch":{"steps":[${steps}]}},{"type":"close"}]}`
}
