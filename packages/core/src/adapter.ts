/**
 * Exports what adapters, drivers and tools need in addition to the client.
 *
 * @module
 */
export { checkOptions } from '@batonsql/options'
export { inNextTurn } from '#next-turn'
export { copyError } from './base/errors.ts'
export { checkClient } from './client/client.ts'
export { failWhen, isFailedAssertion } from './client/failed-assertion.ts'
export { findFailingStatement } from './client/find-failing-statement.ts'
export { openStream, type Stream } from './client/stream.ts'
export type { Attempt } from './optimistic/attempt.ts'
export { runOptimistically } from './optimistic/optimistic.ts'
export { type ScriptStatement, splitStatements } from './sql/script.ts'
export { type StatementKind, setsForeignKeys, statementKind } from './sql/statement-kind.ts'
