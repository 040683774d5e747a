import { COUNT, checkOption, checkOptions, type Rule, type RulesOf } from '@batonsql/options'

const KINDS = ['lost-request', 'lost-response', 'lost-transaction', 'busy', 'no-response'] as const

/**
 * How requests fail:
 * - `lost-request`: the connection is lost before the server has received the request;
 * - `lost-response`: the server runs the request, and the connection is lost before its response;
 * - `lost-transaction`: the server has rolled the transaction back and closed its stream, as after a restart; only requests that
 *   continue a stream fail and are counted, so the first request of a transaction is not;
 * - `busy`: each statement except ROLLBACK fails with `SQLITE_BUSY`;
 * - `no-response`: the server neither runs the request nor responds, until the client disconnects;
 * - a number: a proxy responds with this HTTP status, and the server does not receive the request.
 */
export type FailureKind = (typeof KINDS)[number] | number

/** Which requests fail. Without options, the next one with statements. */
export interface FailureOptions {
  /** Only requests with a statement whose SQL matches. @default all requests with statements */
  readonly sql?: RegExp
  /** The number of the first of these requests that fails. @default 1 */
  readonly on?: number
  /** Whether all later ones fail, too. @default false */
  readonly always?: boolean
}

/** Requests to one database that fail, for tests of the programs that send them. */
export interface Failure {
  /** Returns the number of requests that have failed. */
  count(): number
  /** Ends this failure. */
  remove(): void
}

const KIND: Rule = {
  text: `${KINDS.map((kind) => `'${kind}'`).join(', ')} or an HTTP status from 400 to 599`,
  accepts: (kind) =>
    KINDS.some((name) => name === kind) ||
    (Number.isInteger(kind) && Number(kind) >= 400 && Number(kind) < 600),
}
const OPTIONS: RulesOf<FailureOptions> = {
  sql: { text: 'a regular expression', accepts: (value) => value instanceof RegExp },
  on: COUNT,
  always: 'boolean',
}

/** Checks what a caller of `fail` passes. @throws TypeError for an unknown kind or option */
export function checkFailure(kind: FailureKind, options: FailureOptions): void {
  checkOption('fail: the kind', kind, KIND)
  checkOptions(options, OPTIONS, 'fail')
}
