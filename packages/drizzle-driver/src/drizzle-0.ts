import * as drizzle from 'drizzle-orm'
import * as sqliteCore from 'drizzle-orm/sqlite-core'

// Exports that Drizzle 1.0 no longer has. A named import would fail without a useful message. Each is read as a property, so that
// bundlers omit the rest.

export const BaseSQLiteDatabase = sqliteCore.BaseSQLiteDatabase
export const SQLiteAsyncDialect = sqliteCore.SQLiteAsyncDialect
export const SQLiteTransaction = sqliteCore.SQLiteTransaction
export const createTableRelationsHelpers = drizzle.createTableRelationsHelpers
export const extractTablesRelationalConfig = drizzle.extractTablesRelationalConfig

if (typeof BaseSQLiteDatabase !== 'function')
  throw new TypeError('this is drizzle-orm 1.0 or newer: import from @batonsql/drizzle-driver/v1')
