import { connect } from '@tursodatabase/serverless'
import { INSERT, ROWS, SELECT, type Subject, TRANSACTION, toId, VECTORS } from '../../lib/subject.ts'
import { inserts } from './baton.ts'

export function open(url: string): Subject {
  const db = connect({ url })
  const createBatch = (size: number) => (index: number) =>
    db.batch(
      inserts(index, size).map(({ sql, args }) => ({ sql, args })),
      'immediate',
    )
  return {
    operations: {
      select: (index) => db.all(SELECT, toId(index)),
      insert: (index) => db.run(INSERT, toId(index), 'text'),
      // a connection runs one transaction at a time
      async transaction(index) {
        const run = db.transactionAsync(
          async (tx: { all(sql: string, ...args: unknown[]): Promise<unknown> }) => {
            for (const sql of TRANSACTION) await tx.all(sql, toId(index))
          },
        )
        await run()
      },
      batch10: createBatch(10),
      batch100: createBatch(100),
      async rows() {
        const statement = await db.prepare(ROWS)
        return (await statement.safeIntegers(true).all()).length
      },
      vectors: async () => (await db.all(VECTORS)).length,
    },
    close: async () => db.close(),
  }
}
