import * as drizzle from 'drizzle-orm'
import * as sqliteCore from 'drizzle-orm/sqlite-core'

// What Drizzle 1.0 does not have any more. Imported by name, it would fail the import before anybody could say why; and each
// by its own property, so that bundlers leave out the rest.

export const BaseSQLiteDatabase = sqliteCore.BaseSQLiteDatabase
export const SQLiteAsyncDialect = sqliteCore.SQLiteAsyncDialect
export const SQLiteTransaction = sqliteCore.SQLiteTransaction
export const createTableRelationsHelpers = drizzle.createTableRelationsHelpers
export const extractTablesRelationalConfig = drizzle.extractTablesRelationalConfig

if (typeof BaseSQLiteDatabase !== 'function')
  throw new TypeError('this is drizzle-orm 1.0 or newer: import from @batonsql/drizzle-driver/v1')
