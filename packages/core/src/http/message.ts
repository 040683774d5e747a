import type { Deadline } from '../base/deadline.ts'
import type { Address, ResolvedConfig } from '../config.ts'
import type { Events } from '../observe/events.ts'
import type { Exchange, TransportHead, TransportRequest } from '../transport/transport.ts'
import type { Lifetime } from './lifetime.ts'
import type { Limiter, Permit } from './limiter.ts'
import type { RequestPolicy } from './policies.ts'

export interface RequestOptions {
  readonly signal?: AbortSignal | undefined
  readonly deadline: Deadline
  /** Limits concurrent requests; null for one that continues a stream, which would hold the write lock while it is queued. */
  readonly limiter: Limiter | null
  readonly policy: RequestPolicy
  /** Whether its body carries the replication index, so that a replica first catches up with what this client has seen. */
  readonly needsIndex?: boolean | undefined
  /**
   * Whether the request may be sent again without the replication index, if a replica will never reach that index.
   * @default policy.isIdempotent
   */
  readonly mayOmitIndex?: boolean | undefined
  /** Called before a failed request is sent again: none of it was executed, or it is idempotent. */
  readonly onRetry?: (() => void) | undefined
  /** The calls that share the request; their deadlines restart after a wait for a transaction of this client, on Turso's engine. */
  readonly calls?: readonly { readonly deadline: Deadline }[] | undefined
  readonly inTransaction?: boolean | undefined
  /** The write permit of its own transaction. */
  readonly permit?: Permit | null | undefined
}

export type SendResult<R> = { readonly isOk: true; readonly value: R } | NoResponse<R>

/** A request without a usable response. */
export interface NoResponse<R> {
  readonly isOk: false
  readonly error: unknown
  /** Whether it was sent, and may have run. */
  readonly isSent: boolean
  /** Reads the late response to an aborted request that was left running; absent for any other. */
  readLateResponse?: () => Promise<R>
}

export const notSent = (error: unknown): SendResult<never> => ({ isOk: false, error, isSent: false })

/** Whether a response is not an {@link HttpError}. */
export const isSuccess = (status: number): boolean => status >= 200 && status <= 299

/** A request, and how its response is read. */
export interface Message<T extends TransportHead, R> {
  readonly path: string
  /** Null for a GET. @param index replication index, if the request carries one */
  readonly body: ((index: string | null) => string) | null
  readonly address: Address
  send(request: TransportRequest): Exchange<T>
  /** @throws HttpError for a status other than 2xx */
  read(response: T): R | Promise<R>
}

/** Sends the requests of a client. */
export interface Sender {
  readonly config: ResolvedConfig
  readonly events: Events
  readonly lifetime: Lifetime
  /** Sends a request, and retries where the policy allows it. Never rejects. */
  send<T extends TransportHead, R>(message: Message<T, R>, options: RequestOptions): Promise<SendResult<R>>
}
