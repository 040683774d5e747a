export * from '@libsql/core/api'
export { _createClient, baton, createClient } from './http.ts'
