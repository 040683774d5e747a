import type { DatabaseSettings } from '../backend.ts'
import type { BatchStep, PipelineRequest, Rights } from './pipeline-types.ts'

/** What the server tells an engine host. */
export type ToHost =
  | { readonly type: 'open'; readonly id: string; readonly path: string; readonly settings: DatabaseSettings }
  | { readonly type: 'settings'; readonly settings: DatabaseSettings }
  | ({
      readonly type: 'pipeline'
      readonly requests: readonly PipelineRequest[]
      readonly version: 2 | 3
    } & Call)
  | ({ readonly type: 'cursor'; readonly steps: readonly BatchStep[] } & Call)
  | { readonly type: 'cursor-read'; readonly call: number }
  /** The client of a call has left. */
  | { readonly type: 'abandon'; readonly call: number }
  | { readonly type: 'close-stream'; readonly stream: number }

interface Call {
  readonly call: number
  readonly stream: number
  readonly rights: Rights
  /** Whether the host shall say that it has begun, because the call may have to wait behind another one. */
  readonly announce: boolean
}

/** The pipe beside the messages, on which a host reports even when its end is near. */
export const REPORT_FD = 4

/** The end of a call: text for the client, or why there is none. */
export type CallOutcome =
  | { readonly type: 'results'; readonly text: string; readonly isClosed: boolean }
  | {
      readonly type: 'failure'
      readonly status: number
      readonly contentType: 'text/plain' | 'application/json'
      readonly body: string
    }

/** What an engine host tells the server. */
export type FromHost =
  | { readonly type: 'ready'; readonly sqliteVersion: string }
  | { readonly type: 'answer'; readonly call: number; readonly outcome: CallOutcome }
  /** The cursor's batch is acceptable; its lines follow as asked for. */
  | { readonly type: 'cursor-begin'; readonly call: number }
  | { readonly type: 'cursor-lines'; readonly call: number; readonly text: string }
