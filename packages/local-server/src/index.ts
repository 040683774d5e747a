export { findSqld } from './sqld/binary.ts'
