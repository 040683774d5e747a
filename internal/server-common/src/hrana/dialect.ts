/**
 * Which server the embedded server imitates where the two differ: `sqld` is exactly libsql-server; `cloud` is the hosted
 * service's front end, according to the documentation of its protocol.
 */
export type Dialect = 'sqld' | 'cloud'

/** Checks the name of a dialect. @throws TypeError */
export function checkDialect(subject: string, name: string): Dialect {
  if (name === 'sqld' || name === 'cloud') return name
  throw new TypeError(`${subject}: unknown dialect ${name} (expected "sqld" or "cloud")`)
}
