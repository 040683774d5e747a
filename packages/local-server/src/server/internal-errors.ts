import { randomBytes } from 'node:crypto'
import {
  BodyError,
  errorResponse,
  type ServiceRequest,
  type ServiceResponse,
} from '@batonsql/server-common/http'

/** Errors with status 500 that concern only the client's own request, as the service words them. */
const FOR_CLIENTS =
  /^\{"error":"(?:Internal Error: `(?:SQL |SQLite |Specifying both positional |Arguments do not match |Transaction timed|Server cannot handle |Operation was blocked|Response is too large)|(?:invalid utf-8|incomplete utf-8 byte) sequence|libsql-server cannot use this database|(?:Internal Error: )?`?the database file is open in another program)/

/** Receives what the client does not: a reference that the client also receives, and the details. */
export type ReportInternalError = (reference: string, details: string) => void

/** Replaces the text of an internal error, which may contain paths, ports, process ids and backtraces. */
export function hideInternalError(response: ServiceResponse, report: ReportInternalError): ServiceResponse {
  const { status, body } = response
  if (status !== 500 || typeof body !== 'string' || FOR_CLIENTS.test(body)) return response
  return internalError(body, report)
}

/** Converts an error that a request was rejected with to its response. */
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
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause === undefined ? '' : `\ncaused by ${describe(error.cause)}`
  return `${error.stack ?? String(error)}${cause}`
}
