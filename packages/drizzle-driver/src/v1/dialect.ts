import { entityKind } from 'drizzle-orm'
import { SQLiteDialect, type SQLiteDialectConfig } from 'drizzle-orm/sqlite-core'
import { rejectInexactIntegers } from './codecs.ts'

/** Drizzle's dialect, whose number columns reject inexact integers. */
export class BatonDialect extends SQLiteDialect {
  static override readonly [entityKind]: string = 'BatonDialect'

  constructor(config: SQLiteDialectConfig) {
    super(config)
    rejectInexactIntegers(this.codecs)
  }
}
