export { SqldBackend } from './backend.ts'
export { SqldGroups } from './groups.ts'
