/** All dialects, as options name them. */
export const DIALECTS = ['sqld', 'cloud'] as const

/**
 * Which server the embedded server imitates where the two differ: `sqld` is exactly libsql-server; `cloud` is the hosted
 * service's front end, according to the documentation of its protocol.
 */
export type Dialect = (typeof DIALECTS)[number]
