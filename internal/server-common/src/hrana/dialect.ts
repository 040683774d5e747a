/**
 * Which server the embedded one imitates where they differ: `sqld` is libsql-server exactly, `cloud` the front end of the hosted
 * service, according to its protocol's documentation.
 */
export type Dialect = 'sqld' | 'cloud'

/** @throws TypeError for an unknown name */
export function checkDialect(subject: string, name: string): Dialect {
  if (name === 'sqld' || name === 'cloud') return name
  throw new TypeError(`${subject}: unknown dialect ${name}; known: "sqld", "cloud"`)
}
