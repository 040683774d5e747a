import { refuseOldNode } from './base/supported-node.ts'

export { findSqld, SQLD_PACKAGE_VERSION, SqldMissingError } from './sqld/binary.ts'
export { installSqld } from './sqld/install.ts'
export { type SqldOptions, type SqldProcess, startSqld } from './sqld/process.ts'

refuseOldNode()
