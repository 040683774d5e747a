import { type Client, type ClientConfig, createClient } from '@batonsql/core'
import { IDS, INSERT, ROWS, SELECT, type Subject, TRANSACTION, toId, VECTORS } from '../../lib/subject.ts'

export const open = (url: string): Subject => openWith({ url })

export function openWith(config: ClientConfig): Subject {
  const db = createClient(config)
  const createBatch = (size: number) => (index: number) => db.batch(inserts(index, size))
  return {
    operations: {
      select: (index) => db.execute(SELECT, [toId(index)]),
      insert: (index) => db.execute(INSERT, [toId(index), 'text']),
      transaction: (index) => transaction(db, toId(index)),
      transactionAtOnce: (index) =>
        db.transaction((tx) =>
          Promise.all(Array.from({ length: 5 }, (_, offset) => tx.execute(SELECT, [toId(index + offset)]))),
        ),
      batch10: createBatch(10),
      batch100: createBatch(100),
      batch10000: createBatch(10_000),
      rows: async () => (await db.execute(ROWS)).rows.length,
      vectors: async () => (await db.execute(VECTORS)).rows.length,
    },
    close: () => db.close(),
  }
}

const transaction = (db: Client, id: number): Promise<void> =>
  db.transaction(async (tx) => {
    for (const sql of TRANSACTION) await tx.execute(sql, [id])
  })

export const inserts = (index: number, size: number): { sql: string; args: [number, string] }[] =>
  Array.from({ length: size }, (_, offset) => ({ sql: INSERT, args: [((index + offset) % IDS) + 1, 'text'] }))
