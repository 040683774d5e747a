import {
  DatabaseError,
  type HttpError,
  type RestoreError,
  SqlError,
  type SqlErrorCode,
  type StreamError,
  type TransportError,
} from '@batonsql/core'
import { expectTypeOf } from 'vitest'

declare const error: unknown

if (error instanceof DatabaseError) {
  expectTypeOf(error.outcome).toEqualTypeOf<'not_applied' | 'unknown'>()
  if (error.code === 'HTTP_STATUS') expectTypeOf(error).toEqualTypeOf<HttpError>()
  if (error.code === 'SQLITE_CONSTRAINT') expectTypeOf(error).toEqualTypeOf<SqlError>()
  if (error.code === 'TIMEOUT') expectTypeOf(error).toEqualTypeOf<TransportError>()
  if (error.code === 'TRANSACTION_LOST') expectTypeOf(error).toEqualTypeOf<StreamError>()
  if (error.code === 'RESTORE_STOPPED') expectTypeOf(error).toEqualTypeOf<RestoreError>()
  // @ts-expect-error a code that does not exist
  if (error.code === 'SQLITE_CONSTRANT') throw error
}

if (error instanceof SqlError) {
  expectTypeOf(error.code).toEqualTypeOf<SqlErrorCode>()
  // @ts-expect-error a code that does not exist
  if (error.code === 'SQLITE_BUZY') throw error
}

/** Fails to compile if a code has no class. */
export function nameOf(error: DatabaseError): string {
  switch (error.name) {
    case 'SqlError':
    case 'StreamError':
    case 'TransportError':
    case 'HttpError':
    case 'ProtocolError':
    case 'RestoreError':
    case 'ConflictError':
      return error.code
    default:
      return error satisfies never
  }
}
