import { createClient } from '@libsql/client/http'
import { ROWS, SELECT, type Subject, TRANSACTION } from './subject.ts'

export function open(url: string): Subject {
  const db = createClient({ url, intMode: 'bigint' })
  return {
    select: (id) => db.execute({ sql: SELECT, args: [id] }),
    async transaction(id) {
      const tx = await db.transaction('write')
      for (const sql of TRANSACTION) await tx.execute({ sql, args: [id] })
      await tx.commit()
    },
    rows: async () => (await db.execute(ROWS)).rows.length,
    close: async () => db.close(),
  }
}
