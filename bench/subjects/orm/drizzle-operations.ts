import { eq, sql } from 'drizzle-orm'
import type { BaseSQLiteDatabase } from 'drizzle-orm/sqlite-core'
import { type Subject, toId } from '../../lib/subject.ts'
import { account, item, log, type schema } from './schema.ts'

/** Opens a subject that performs the operations with Drizzle, for any driver. */
export function openWithDatabase(
  db: BaseSQLiteDatabase<'async', unknown, typeof schema>,
  close: () => Promise<unknown>,
): Subject {
  return {
    operations: {
      ormSelect: (index) =>
        db
          .select()
          .from(item)
          .where(eq(item.id, toId(index))),
      ormInsert: (index) =>
        db
          .insert(log)
          .values({ a: toId(index), b: 'text' })
          .returning(),
      ormRelational: (index) =>
        db.query.item.findMany({ where: eq(item.id, toId(index)), with: { posts: true } }),
      ormTransaction: (index) =>
        db.transaction(async (tx) => {
          await tx
            .select({ cents: account.cents })
            .from(account)
            .where(eq(account.id, toId(index)))
          for (const amount of [-1, 1]) {
            await tx
              .update(account)
              .set({ cents: sql`cents + ${amount}` })
              .where(eq(account.id, toId(index)))
          }
        }),
    },
    close,
  }
}
