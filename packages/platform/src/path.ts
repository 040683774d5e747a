import { type Condition, checkEnds, checkOption } from '@batonsql/options'

/**
 * Replaces the parameters in braces in a pattern, such as `/v1/organizations/{organization}`, with encoded values.
 * @throws TypeError for a value that is not a well-formed string, is empty, or is `.` or `..`, which would lead to another route
 */
export function fillPath(pattern: string, getValue: (name: string) => unknown): string {
  return pattern.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = getValue(name)
    if (typeof value !== 'string')
      throw new TypeError(`${name} must be a string, not a value of type ${typeof value}`)
    if (/^\.{0,2}$/.test(value)) throw new TypeError(`${name} cannot be "${value}"`)
    if (!value.isWellFormed()) throw new TypeError(`${name} has a lone surrogate`)
    return encodeURIComponent(value)
  })
}

/** Checks a path whose segments the caller has encoded, and returns it. @throws TypeError with the reason */
export function checkPath(path: string): string {
  if (typeof path !== 'string' || !/^\/(?!\/)(?:[\w\-.~!$&'()*+,;=:@/]|%[\da-f]{2})*$/i.test(path))
    throw new TypeError(
      'the path must begin with one "/" and have its segments encoded; pass a query in the option query',
    )
  if (new URL(path, 'http://host').pathname !== path) throw new TypeError('the path cannot have "." or ".."')
  return path
}

export type Query = Readonly<Record<string, string | number | boolean | null | undefined>>

const QUERY_VALUE: Condition = {
  text: 'a string, a number or a boolean',
  accepts: (value) => ['string', 'number', 'bigint', 'boolean'].includes(typeof value),
}

/** Returns the query with its question mark; empty if no value is set. @throws TypeError for a value that is an object */
export function queryText(query: Query): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value == null) continue
    checkOption(`query.${name}`, value, QUERY_VALUE)
    parameters.append(name, String(value))
  }
  return parameters.size === 0 ? '' : `?${parameters.toString()}`
}

/**
 * Parses a base URL and removes the slash at its end; a path prefix is kept.
 * @throws TypeError unless it is an http or https URL without query, fragment and user
 */
export function parseUrl(url: string | URL): string {
  const text = String(url)
  checkEnds('url', text)
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text))
    throw new TypeError('url must be https://… or http://… with a valid host')
  const { origin, pathname, search, hash, username, password } = new URL(text)
  if (search || hash || username || password)
    throw new TypeError('url can have neither a query, a fragment nor a user name')
  return origin + pathname.replace(/(?<!\/)\/+$/, '')
}
