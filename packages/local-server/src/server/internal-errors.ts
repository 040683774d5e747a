import { randomBytes } from 'node:crypto'
import {
  BodyError,
  errorResponse,
  type ServiceRequest,
  type ServiceResponse,
} from '@batonsql/server-common/http'

/**
 * Errors with status 500 whose text clients receive. Most concern only the client's own request: the service words them, and both
 * libsql-server and the embedded engine (`ResultError`, `TextEncodingError`) produce them. The last two are ours and contain no path:
 * `UNUSABLE_MESSAGE` of groups.ts, and `IN_USE_MESSAGE` of claim-file.ts, which the user can act on.
 */
const FOR_CLIENTS =
  /^\{"error":"(?:Internal Error: `(?:SQL |SQLite |Specifying both positional |Arguments do not match |Transaction timed|Server cannot handle |Operation was blocked|Response is too large)|(?:invalid utf-8|incomplete utf-8 byte) sequence|libsql-server cannot use this database|(?:Internal Error: )?`?the database file is open in another program)/

/** Receives what the client does not: a reference that the client also receives, and the details. */
export type ReportInternalError = (reference: string, details: string) => void

/**
 * Replaces the text of an internal error, which may contain paths, ports, process ids and backtraces. A body that is not a string is
 * not changed: it is a stream, or the Buffer of a failure that `failures.ts` injects.
 */
export function hideInternalError(response: ServiceResponse, report: ReportInternalError): ServiceResponse {
  const { status, body } = response
  if (status !== 500 || typeof body !== 'string' || FOR_CLIENTS.test(body)) return response
  return internalError(body, report)
}

/** Converts an error that a request was rejected with to its response, which is never sent if the client has disconnected. */
export function toErrorResponse(
  error: unknown,
  request: Pick<ServiceRequest, 'controller' | 'body'>,
  report: ReportInternalError,
): ServiceResponse {
  // the connection is closed, because the rest of the body has not been read
  if (error instanceof BodyError) {
    const { status, headers, body } = errorResponse(error.status, error.message)
    return { status, headers: { ...headers, connection: 'close' }, body }
  }
  const isDisconnected = request.controller.signal.aborted || request.body.readableAborted
  return isDisconnected
    ? errorResponse(500, 'the client has disconnected')
    : internalError(describe(error), report)
}

function internalError(details: string, report: ReportInternalError): ServiceResponse {
  const reference = randomBytes(6).toString('hex')
  report(reference, details)
  return errorResponse(
    500,
    `Internal Error: the server failed to handle this request; its log shows the reason (reference ${reference})`,
  )
}

/** Describes an error for the operator, with its stack and its causes. */
function describe(error: unknown): string {
  // a set, because causes may be cyclic
  const chain = new Set([error])
  for (const link of chain) if (link instanceof Error && link.cause !== undefined) chain.add(link.cause)
  const texts = [...chain].map((link) => (link instanceof Error && link.stack) || String(link))
  return texts.join('\ncaused by ')
}
