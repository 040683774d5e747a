/** A path that is safe to put behind a base URL: each of its segments is encoded. */
export type PlatformPath = string & { readonly isEncoded: true }

/**
 * Encodes what is put into a path: ``path`/v1/organizations/${slug}/databases/${name}` ``.
 * @throws TypeError for a value that is no string, is empty, or is `.` or `..`, which would lead to another route
 */
export function path(parts: TemplateStringsArray, ...segments: readonly string[]): PlatformPath {
  return parts.reduce((text, part, at) => text + encodeSegment(segments[at - 1]) + part) as PlatformPath
}

function encodeSegment(segment: unknown): string {
  if (typeof segment !== 'string')
    throw new TypeError(`a part of the path must be a string, not a value of type ${typeof segment}`)
  if (segment === '' || segment === '.' || segment === '..')
    throw new TypeError(`a part of the path cannot be "${segment}"`)
  try {
    return encodeURIComponent(segment)
  } catch {
    throw new TypeError('a part of the path has half of a surrogate pair')
  }
}

/** Checks a path of the caller's own, whose segments the caller has encoded. @throws TypeError saying what is wrong */
export function checkPath(given: string): PlatformPath {
  if (typeof given !== 'string' || !given.startsWith('/'))
    throw new TypeError('the path must begin with "/" and cannot be a whole URL')
  if (!/^[\w\-.~%!$&'()*+,;=:@/]*$/.test(given))
    throw new TypeError('the path has characters that must be encoded; a query goes into the option query')
  for (const segment of given.slice(1).split('/')) {
    let decoded: string
    try {
      decoded = decodeURIComponent(segment)
    } catch {
      throw new TypeError('the path has a "%" that encodes nothing')
    }
    encodeSegment(decoded)
  }
  return given as PlatformPath
}

export type Query = Readonly<Record<string, string | number | boolean | null | undefined>>

/** The query with its question mark, or nothing when no value is set. */
export function queryText(query: Query): string {
  const given = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null) given.append(name, String(value))
  const text = given.toString()
  return text === '' ? '' : `?${text}`
}

/**
 * A base URL without its end slash: a prefix of its path stays.
 * @throws TypeError for what is no http or https URL, or has a query, a fragment or a user
 */
export function parseBaseUrl(baseUrl: string | URL): string {
  const text = String(baseUrl)
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text))
    throw new TypeError('baseUrl must be https://… or http://… with a valid host')
  const { origin, pathname, search, hash, username, password } = new URL(text)
  if (search || hash || username || password)
    throw new TypeError('baseUrl can have neither a query, a fragment nor a user name')
  return origin + pathname.replace(/\/+$/, '')
}
