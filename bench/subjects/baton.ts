import { createClient } from '@batonsql/core'
import { ROWS, SELECT, type Subject, TRANSACTION } from './subject.ts'

export function open(url: string): Subject {
  const db = createClient({ url })
  return {
    select: (id) => db.execute(SELECT, [id]),
    transaction: (id) =>
      db.transaction(async (tx) => {
        for (const sql of TRANSACTION) await tx.execute(sql, [id])
      }),
    rows: async () => (await db.execute(ROWS)).rows.length,
    close: () => db.close(),
  }
}
