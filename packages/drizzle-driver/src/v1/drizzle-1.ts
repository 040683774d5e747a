import * as drizzle from 'drizzle-orm'
import * as sqliteCore from 'drizzle-orm/sqlite-core'

// Exports that Drizzle before 1.0 does not have. A named import would fail without a useful message. Each is read as a property, so
// that bundlers omit the rest.

export const DrizzleQueryError = drizzle.DrizzleQueryError
export const SQLiteAsyncDatabase = sqliteCore.SQLiteAsyncDatabase
export const SQLiteAsyncPreparedQuery = sqliteCore.SQLiteAsyncPreparedQuery
export const SQLiteAsyncSession = sqliteCore.SQLiteAsyncSession
export const SQLiteAsyncTransaction = sqliteCore.SQLiteAsyncTransaction
export const castToText = sqliteCore.castToText
export const dateFromStoredMilliseconds = sqliteCore.dateFromStoredMilliseconds
export const dateFromStoredSeconds = sqliteCore.dateFromStoredSeconds
export const refineSqliteCodecs = sqliteCore.refineSqliteCodecs

if (typeof SQLiteAsyncDatabase !== 'function')
  throw new TypeError(
    'this is drizzle-orm before 1.0: import from @batonsql/drizzle-driver, or install drizzle-orm 1.0.0-rc.5 or newer',
  )
