import type { PlatformFetch } from '../src/config.ts'
import { createPlatformClient, type PlatformClient, type PlatformConfig } from '../src/index.ts'

/** A request as it was sent. */
export interface PlatformRequest {
  readonly method: string
  readonly host: string
  /** With its query, encoded as it was sent. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Empty for none. */
  readonly body: string | FormData
  readonly signal: AbortSignal
  readonly redirect: string
}

/** The response: JSON of `body`, or `text`. `drop` loses the connection instead; `hang` never responds. */
export interface ScriptedResponse {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly text?: string
  readonly drop?: boolean
  readonly hang?: boolean
}

export type PlatformScript = (request: PlatformRequest, count: number) => ScriptedResponse

export const TOKEN = 'platform-token'

/** Returns the error that `fetch` throws for a connection that fails with a code. */
export const fetchFailure = (code: string, syscall = 'connect'): TypeError =>
  new TypeError('fetch failed', { cause: Object.assign(new Error(`${syscall} ${code}`), { code, syscall }) })

/**
 * A client whose `fetch` responds as a test specifies: always the same, in order (and then the last), or as a function returns. A
 * request that hangs ignores its signal.
 */
export function scriptedPlatform(
  script: PlatformScript | ScriptedResponse | readonly ScriptedResponse[],
  config: Partial<PlatformConfig> = {},
): {
  readonly platform: PlatformClient
  readonly received: PlatformRequest[]
  readonly fetch: PlatformFetch
} {
  const received: PlatformRequest[] = []
  const fetch: PlatformFetch = async (address, { method, headers, body = '', signal, redirect }) => {
    const { host, pathname, search } = new URL(address)
    const request = { method, host, url: pathname + search, headers, body, signal, redirect }
    const count = received.push(request)
    const responses = typeof script === 'function' ? [script(request, count)] : [script].flat()
    const response = responses[Math.min(count, responses.length) - 1] ?? {}
    if (response.drop) throw fetchFailure('ECONNRESET', 'read')
    if (response.hang) return await new Promise(() => {})
    const text = response.text ?? (response.body === undefined ? '' : JSON.stringify(response.body))
    return new Response(text, {
      status: response.status ?? 200,
      headers: { 'content-type': 'application/json', ...response.headers },
    })
  }
  const url = 'https://api.platform.test'
  const settings = { organization: 'acme', token: TOKEN, url, fetch, ...config }
  return { platform: createPlatformClient(settings), received, fetch }
}

/** A JWT without a valid signature. */
export function unsignedJwt(claims: object): string {
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${encode({ alg: 'EdDSA', typ: 'JWT' })}.${encode(claims)}.c2lnbmF0dXJl`
}
