// For Workers and browsers: `node.ts` without files, with the exports of `@libsql/client/web`.
export * from '@libsql/core/api'
export { _createClient, baton, createClient } from './http.ts'
