/**
 * Fills the parts in braces of a pattern, as `/v1/organizations/{organization}`, each of them encoded.
 * @throws TypeError for a value that is no string, is empty, or is `.` or `..`, which would lead to another route
 */
export function fillPath(pattern: string, valueOf: (name: string) => unknown): string {
  return pattern.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = valueOf(name)
    if (typeof value !== 'string')
      throw new TypeError(`${name} must be a string, not a value of type ${typeof value}`)
    if (/^\.{0,2}$/.test(value)) throw new TypeError(`${name} cannot be "${value}"`)
    if (!value.isWellFormed()) throw new TypeError(`${name} has half of a surrogate pair`)
    return encodeURIComponent(value)
  })
}

/** Checks a path of the caller's own, whose segments the caller has encoded. @throws TypeError saying what is wrong */
export function checkPath(path: string): string {
  if (typeof path !== 'string' || !/^\/(?!\/)(?:[\w\-.~!$&'()*+,;=:@/]|%[\da-f]{2})*$/i.test(path))
    throw new TypeError(
      'the path must begin with one "/", with its segments encoded; a query goes into the option query',
    )
  if (new URL(path, 'http://host').pathname !== path) throw new TypeError('the path cannot have "." or ".."')
  return path
}

export type Query = Readonly<Record<string, string | number | boolean | null | undefined>>

/** The query with its question mark, or nothing when no value is set. */
export function queryText(query: Query): string {
  const given = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value != null) given.append(name, String(value))
  return given.size === 0 ? '' : `?${given.toString()}`
}

/**
 * A base URL without its end slash: a prefix of its path stays.
 * @throws TypeError for what is no http or https URL, or has a query, a fragment or a user
 */
export function parseUrl(url: string | URL): string {
  const text = String(url)
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text))
    throw new TypeError('url must be https://… or http://… with a valid host')
  const { origin, pathname, search, hash, username, password } = new URL(text)
  if (search || hash || username || password)
    throw new TypeError('url can have neither a query, a fragment nor a user name')
  return origin + pathname.replace(/\/+$/, '')
}
