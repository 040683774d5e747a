import type { StreamError } from '../base/errors.ts'

/** Why a call is rejected. The shell of its stream turns it into an error. */
export type Rejection =
  | { readonly type: 'error'; readonly error: unknown }
  /** The stream was closed or lost. */
  | { readonly type: 'ended' }
  | { readonly type: 'stream'; readonly code: StreamError['code']; readonly message: string }
  | { readonly type: 'misuse'; readonly message: string }
  | { readonly type: 'queueFull' }
  | { readonly type: 'timeout'; readonly timeoutMs: number }

export const NO_TRANSACTION: Rejection = { type: 'misuse', message: 'no transaction is open on this stream' }
export const ENDED: Rejection = { type: 'ended' }
export const ROLLED_BACK: Rejection = {
  type: 'stream',
  code: 'STREAM_CLOSED',
  message: 'the transaction was rolled back',
}
export const NOT_RUN: Rejection = {
  type: 'stream',
  code: 'TRANSACTION_LOST',
  message: 'not run: the COMMIT before it failed',
}
export const CURSOR_IS_OPEN = {
  type: 'misuse',
  message: 'rows are being read on this stream: leave the loop first',
} as const satisfies Rejection
