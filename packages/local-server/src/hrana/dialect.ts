/**
 * Which of the two families of servers the embedded one answers like, where they differ: `sqld` is libsql-server to the
 * letter, `cloud` the front end of the hosted service, as its protocol is written down.
 */
export type Dialect = 'sqld' | 'cloud'

/** @throws TypeError for a name that is none */
export function checkDialect(subject: string, name: string): Dialect {
  if (name === 'sqld' || name === 'cloud') return name
  throw new TypeError(`${subject}: no such dialect: ${name}; it is "sqld" or "cloud"`)
}
