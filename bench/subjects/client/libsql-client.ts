import { type Client, createClient } from '@libsql/client/http'
import { INSERT, ROWS, SELECT, type Subject, TRANSACTION, toId, VECTORS } from '../../lib/subject.ts'
import { inserts } from './baton.ts'

export const open = (url: string): Subject => createSubject(createClient({ url, intMode: 'bigint' }))

/** Creates a subject from a client; also used for the drop-in replacement. */
export function createSubject(db: Client): Subject {
  const batch = (size: number) => (index: number) => db.batch(inserts(index, size), 'write')
  return {
    operations: {
      select: (index) => db.execute({ sql: SELECT, args: [toId(index)] }),
      insert: (index) => db.execute({ sql: INSERT, args: [toId(index), 'text'] }),
      async transaction(index) {
        const tx = await db.transaction('write')
        for (const sql of TRANSACTION) await tx.execute({ sql, args: [toId(index)] })
        await tx.commit()
      },
      async transactionAtOnce(index) {
        const tx = await db.transaction('write')
        await Promise.all(
          [0, 1, 2, 3, 4].map((offset) => tx.execute({ sql: SELECT, args: [toId(index + offset)] })),
        )
        await tx.commit()
      },
      batch10: batch(10),
      batch100: batch(100),
      batch10000: batch(10_000),
      rows: async () => (await db.execute(ROWS)).rows.length,
      vectors: async () => (await db.execute(VECTORS)).rows.length,
    },
    close: async () => db.close(),
  }
}
