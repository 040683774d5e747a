import Libsql from 'libsql'
import type { EngineValue } from './pipeline-types.ts'

/** What the engine hands out and takes: our values, with blobs as `Buffer` because anything else aborts the process. */
export type NativeValue = null | bigint | number | string | Buffer

export interface EngineColumn {
  readonly name: string
  readonly type: string | null
}

/** A prepared statement of the engine, as far as it is used here. */
export interface EngineStatement {
  readonly reader: boolean
  columns(): readonly EngineColumn[]
  raw(): this
  run(values: readonly NativeValue[]): unknown
  get(values: readonly NativeValue[]): unknown
  iterate(values: readonly NativeValue[]): Iterator<readonly NativeValue[]>
}

/** A connection of the engine, as far as it is used here. Every call blocks the thread until it is done. */
export interface EngineConnection {
  readonly inTransaction: boolean
  prepare(sql: string): EngineStatement
  exec(sql: string): unknown
  close(): unknown
}

/** Opens a connection to a database file, which is created when it does not exist. */
export function openEngine(path: string): EngineConnection {
  const connection = new Libsql(path)
  // integers as bigint; without it everything above 2^53 is rounded
  connection.defaultSafeIntegers(true)
  return connection as unknown as EngineConnection
}

/** Brings values into the forms the engine can be given without ending the process. */
export function toNative(values: readonly EngineValue[]): NativeValue[] {
  return values.map((value) =>
    value instanceof Uint8Array && !Buffer.isBuffer(value)
      ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      : value,
  )
}
