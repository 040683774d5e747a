import { isObject } from './view.ts'

/** What the service says of a refusal, where it is its own JSON. */
export function readRefusal(text: string): { reason: string | null; serverCode: string | null } {
  try {
    const body: unknown = JSON.parse(text)
    const { error, code } = isObject(body) ? body : {}
    const reason = error === undefined || typeof error === 'string' ? error : JSON.stringify(error)
    return { reason: reason ?? null, serverCode: typeof code === 'string' ? code : null }
  } catch {
    return { reason: null, serverCode: null }
  }
}

/** What to do about a refusal, where that is known. */
export function hintFor(status: number, text: string | null): string | null {
  if (status === 401 && text?.includes('could not parse jwt id'))
    return 'the token is one of a database: the platform API wants an API token'
  if (status === 401) return 'check token'
  return status === 0 ? 'a redirect, which is not followed' : null
}

const REQUEST_IDS = ['x-request-id', 'request-id', 'fly-request-id', 'x-amzn-requestid', 'cf-ray']

/** Id of a request, by the headers of its answer. */
export const requestIdOf = (headers: Readonly<Record<string, string>>): string | null =>
  REQUEST_IDS.map((name) => headers[name]).find(Boolean) ?? null
