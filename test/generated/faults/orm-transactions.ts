import type { Client } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { sql as fragment, type SQL } from 'drizzle-orm'
import { CompiledQuery, Kysely } from 'kysely'
import type { TransactionClient } from './torn-transactions.ts'

/** Runs transactions with Kysely. */
export function kyselyTransactions(client: Client): TransactionClient {
  const db = new Kysely<unknown>({ dialect: new BatonDialect({ client }) })
  return {
    transaction: (callback) =>
      db
        .transaction()
        .execute((trx) =>
          callback({ execute: (text, args) => trx.executeQuery(CompiledQuery.raw(text, args)) }),
        ),
  }
}

/** Runs transactions with Drizzle. */
export function drizzleTransactions(client: Client): TransactionClient {
  const db = drizzle(client)
  return {
    transaction: (callback) =>
      db.transaction((tx) => callback({ execute: async (text, args) => await tx.run(withArgs(text, args)) })),
  }
}

export function withArgs(text: string, args: readonly number[]): SQL {
  const chunks = text.split('?')
  return fragment.join(
    chunks.flatMap((chunk, index) =>
      index === 0 ? [fragment.raw(chunk)] : [fragment`${args[index - 1]}`, fragment.raw(chunk)],
    ),
  )
}
