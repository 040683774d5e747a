import { createClient } from 'libsql-stateless-easy'
import { INSERT, ROWS, SELECT, type Subject, toId, VECTORS } from '../../lib/subject.ts'
import { inserts } from './baton.ts'

/** Opens libsql-stateless-easy, which does not support transactions. */
export function open(url: string): Subject {
  const db = createClient({ url, intMode: 'bigint', disableCriticalChecks: true })
  const batch = (size: number) => (index: number) => db.batch(inserts(index, size), 'write')
  return {
    operations: {
      select: (index) => db.execute({ sql: SELECT, args: [toId(index)] }),
      insert: (index) => db.execute({ sql: INSERT, args: [toId(index), 'text'] }),
      batch10: batch(10),
      batch100: batch(100),
      rows: async () => (await db.execute(ROWS)).rows.length,
      vectors: async () => (await db.execute(VECTORS)).rows.length,
    },
    close: async () => {},
  }
}
