import { connect } from '@tursodatabase/serverless'
import { INSERT, ROWS, SELECT, type Subject, TRANSACTION, toId, VECTORS } from '../../lib/subject.ts'
import { inserts } from './baton.ts'

export function open(url: string): Subject {
  const db = connect({ url })
  const batch = (size: number) => (at: number) =>
    db.batch(
      inserts(at, size).map(({ sql, args }) => ({ sql, args })),
      'immediate',
    )
  return {
    operations: {
      select: (at) => db.all(SELECT, toId(at)),
      insert: (at) => db.run(INSERT, toId(at), 'text'),
      // a connection runs one transaction at a time
      async transaction(at) {
        const run = db.transactionAsync(
          async (tx: { all(sql: string, ...args: unknown[]): Promise<unknown> }) => {
            for (const sql of TRANSACTION) await tx.all(sql, toId(at))
          },
        )
        await run()
      },
      batch10: batch(10),
      batch100: batch(100),
      async rows() {
        const statement = await db.prepare(ROWS)
        return (await statement.safeIntegers(true).all()).length
      },
      vectors: async () => (await db.all(VECTORS)).length,
    },
    close: async () => db.close(),
  }
}
