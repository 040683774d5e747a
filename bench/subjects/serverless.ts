import { connect } from '@tursodatabase/serverless'
import { ROWS, SELECT, type Subject, TRANSACTION } from './subject.ts'

export function open(url: string): Subject {
  const db = connect({ url })
  return {
    select: (id) => db.all(SELECT, id),
    // a connection runs one transaction at a time
    async transaction(id) {
      const run = db.transactionAsync(
        async (tx: { all(sql: string, ...args: unknown[]): Promise<unknown> }) => {
          for (const sql of TRANSACTION) await tx.all(sql, id)
        },
      )
      await run()
    },
    async rows() {
      const statement = await db.prepare(ROWS)
      return (await statement.safeIntegers(true).all()).length
    },
    close: async () => db.close(),
  }
}
