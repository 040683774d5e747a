import { isObject } from './view.ts'

/** What the service says of a refusal, where it is its own JSON. */
export function readErrorBody(text: string): { error: string | null; code: string | null } {
  try {
    const body: unknown = JSON.parse(text)
    if (!isObject(body)) return { error: null, code: null }
    const { error, code } = body
    const words = error === undefined || typeof error === 'string' ? error : JSON.stringify(error)
    return { error: words ?? null, code: typeof code === 'string' ? code : null }
  } catch {
    return { error: null, code: null }
  }
}

/** What to do about a refusal, where that is known. */
export function hintFor(status: number, said: string | null): string | null {
  if (status === 401 && said?.includes('could not parse jwt id'))
    return 'the token is one of a database: the platform API wants an API token'
  if (status === 401) return 'check token'
  if (status === 0) return 'a redirect, which is not followed'
  return null
}

const REQUEST_IDS = ['x-request-id', 'request-id', 'fly-request-id', 'x-amzn-requestid', 'cf-ray']

/** Id of a request, by the headers of its answer. */
export function requestIdOf(headers: Readonly<Record<string, string>>): string | null {
  const name = REQUEST_IDS.find((each) => headers[each])
  return name ? (headers[name] as string) : null
}
