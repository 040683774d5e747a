import { entityKind } from 'drizzle-orm'
import { resolveSQLiteTypeAlias, SQLiteDialect, type SQLiteDialectConfig } from 'drizzle-orm/sqlite-core'
import { batonCodecs, ExactCodecs } from './codecs.ts'

/** Drizzle's dialect, whose number columns reject inexact integers. */
export class BatonDialect extends SQLiteDialect {
  static override readonly [entityKind]: string = 'BatonDialect'
  override readonly codecs: ExactCodecs

  constructor(config: SQLiteDialectConfig) {
    super(config)
    this.codecs = new ExactCodecs(resolveSQLiteTypeAlias, config.codecs ?? batonCodecs)
  }
}
