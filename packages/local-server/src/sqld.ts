import { refuseOldNode } from './base/supported-node.ts'

export { findSqld, SQLD_PACKAGE_VERSION, SqldMissingError } from './sqld/process/binary.ts'
export { installSqld } from './sqld/process/install.ts'
export { type SqldOptions, type SqldProcess, startSqld } from './sqld/process/process.ts'

refuseOldNode()
