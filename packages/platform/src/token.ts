import { checkEnds, describeType } from '@batonsql/options'

/** Token of the platform API. Accepts any string except a known database token. */
export type PlatformToken = string & { readonly tokenKind?: 'platform' }

/** Token of a database or group, for `createClient({ authToken })`. Not valid for the platform API. */
export type DatabaseToken = string & { readonly tokenKind?: 'database' }

/** Returns the claims of a JWT, without verifying it; null if it is not a JWT. */
export function readClaims(token: string): Readonly<Record<string, unknown>> | null {
  const [, payload, signature] = token.split('.')
  if (payload === undefined || signature === undefined) return null
  try {
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (char) =>
      char.charCodeAt(0),
    )
    const claims: unknown = JSON.parse(new TextDecoder().decode(bytes))
    return typeof claims === 'object' && claims !== null ? { ...claims } : null
  } catch {
    return null
  }
}

/** Claims that only tokens of databases and groups have. */
const DATABASE_CLAIMS = ['a', 'p', 'id', 'gid', 'rid', 'perm']

/** Checks that a token can be sent in a header. @throws TypeError with a message that contains no part of the token */
export function checkToken(name: string, token: unknown): asserts token is string {
  if (typeof token !== 'string')
    throw new TypeError(
      `${name} must be a string, not ${describeType(token)}: is its environment variable set?`,
    )
  checkEnds(name, token)
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new TypeError(`${name} ${token === '' ? 'is empty' : 'contains invalid characters'}`)
}

/** Checks a token of the platform API. @throws TypeError if it is invalid, with a message that contains no part of the token */
export function checkPlatformToken(token: unknown): asserts token is PlatformToken {
  checkToken('token', token)
  const claims = readClaims(token)
  // tokens of the platform API have `jti`
  if (claims && !('jti' in claims) && DATABASE_CLAIMS.some((claim) => claim in claims))
    throw new TypeError(
      'token is a database token, which the platform API rejects: create an API token with `apiTokens.create`',
    )
}

/** Replaces JSON escapes such as `\u0061`, in which a token could hide, with the characters that they stand for. */
const unescapeAscii = (text: string): string =>
  // matches other escapes, too: the second character of `\\` begins no escape
  text.replace(/\\(?:u00([2-7][\da-f])|[^])/gi, (escape: string, code?: string) => {
    const char = code === undefined ? '' : String.fromCharCode(Number.parseInt(code, 16))
    return /^[^"\\\u007f]$/.test(char) ? char : escape
  })

/** Replaces a token, also one that is escaped in JSON, and everything that looks like a JWT, with `[token]`. */
export function redact(text: string, token: string): string {
  const escaped = JSON.stringify(token).slice(1, -1)
  const forms = token === '' ? [] : [token, escaped, escaped.replaceAll('/', '\\/')]
  const unescaped = unescapeAscii(text)
  const source = forms.some((form) => unescaped.includes(form)) ? unescaped : text
  const redacted = forms.reduce((remaining, form) => remaining.replaceAll(form, '[token]'), source)
  // a match begins at the first of three parts: if it could begin at each `eyJ`, the time would be quadratic
  return redacted.replace(
    /(?<![\w-])(?=[\w-]+\.[\w-]+\.[\w-])([\w-]*?)\beyJ[\w-]+\.[\w-]+\.[\w-]+/g,
    '$1[token]',
  )
}
