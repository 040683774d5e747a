import type { Client } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { sql as fragment } from 'drizzle-orm'
import { CompiledQuery, Kysely, type Transaction } from 'kysely'

/** How a query builder begins a transaction. */
export type Orm = 'kysely' | 'kysely on a connection' | 'controlled kysely' | 'drizzle'

type Row = Readonly<Record<string, unknown>>

/** The operations of a program on a query builder's transaction. */
export interface OrmHandle {
  execute(sql: string): Promise<{ readonly rows: readonly Row[] }>
  rows(sql: string): AsyncIterable<Row>
  savepoint(callback: (inner: OrmHandle) => Promise<unknown>): Promise<unknown>
}

/** Runs a callback as a transaction of a query builder, on a client. */
export async function ormTransaction(
  client: Client,
  orm: Orm,
  callback: (handle: OrmHandle) => Promise<unknown>,
): Promise<unknown> {
  if (orm === 'drizzle') return await drizzle(client).transaction((tx) => callback(toDrizzleHandle(tx)))
  const db = new Kysely<unknown>({ dialect: new BatonDialect({ client }) })
  if (orm === 'kysely') return await db.transaction().execute((trx) => callback(toKyselyHandle(trx)))
  if (orm === 'kysely on a connection')
    return await db
      .connection()
      .execute((connection) => connection.transaction().execute((trx) => callback(toKyselyHandle(trx))))
  const trx = await db.startTransaction().execute()
  let result: unknown
  try {
    result = await callback(toKyselyHandle(trx))
  } catch (error) {
    await trx.rollback().execute()
    throw error
  }
  await trx.commit().execute()
  return result
}

const toKyselyHandle = (trx: Transaction<unknown>): OrmHandle => ({
  execute: (sql) => trx.executeQuery<Row>(CompiledQuery.raw(sql)),
  async *rows(sql) {
    for await (const { rows } of trx.getExecutor().stream<Row>(CompiledQuery.raw(sql), 1)) yield* rows
  },
  savepoint: () => Promise.reject(new TypeError('Kysely has no savepoints of this kind')),
})

/** The common interface of Drizzle's transactions and savepoints. */
interface DrizzleTransaction {
  all(query: ReturnType<typeof fragment.raw>): Promise<unknown[]>
  transaction<T>(callback: (tx: DrizzleTransaction) => Promise<T>): Promise<T>
}

const toDrizzleHandle = (tx: DrizzleTransaction): OrmHandle => {
  const execute = async (sql: string): Promise<{ readonly rows: readonly Row[] }> => {
    const rows = (await tx.all(fragment.raw(sql))) as (Row | readonly unknown[])[]
    return { rows: rows.map((row) => (Array.isArray(row) ? { a: row[0] as unknown } : (row as Row))) }
  }
  return {
    execute,
    async *rows(sql) {
      yield* (await execute(sql)).rows
    },
    savepoint: (callback) => tx.transaction((inner) => callback(toDrizzleHandle(inner))),
  }
}
