import { isObject } from './view.ts'

/** Parses the error message and code of a response in the service's JSON. */
export function parseRejection(text: string): { reason: string | null; serverCode: string | null } {
  try {
    const body: unknown = JSON.parse(text)
    const { error = null, code } = isObject(body) ? body : {}
    const reason = error === null || typeof error === 'string' ? error : JSON.stringify(error)
    return { reason, serverCode: typeof code === 'string' ? code : null }
  } catch {
    return { reason: null, serverCode: null }
  }
}

/** Returns a hint for an error, or an empty text. */
export function hintFor(status: number, reason: string): string {
  if (status === 401 && reason.includes('could not parse jwt id'))
    return 'this is a database token: the platform API needs an API token'
  if (status === 401) return 'check token'
  // browsers hide the status of a redirect
  return status === 0 ? 'a redirect, which is not followed' : ''
}

const REQUEST_IDS = ['x-request-id', 'request-id', 'fly-request-id', 'x-amzn-requestid', 'cf-ray']

/** Returns the id of a request from the headers of its response; null if they have none. */
export const readRequestId = (headers: Readonly<Record<string, string>>): string | null =>
  REQUEST_IDS.map((name) => headers[name]).find(Boolean) ?? null
