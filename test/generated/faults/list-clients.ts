import { type Client, type OptimisticReader, optimistic, type Transaction } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { CompiledQuery, type ControlledTransaction, Kysely } from 'kysely'
import type { ListClient, ListHandle } from './list-append.ts'
import { withArgs } from './orm-transactions.ts'

/** Runs transactions with core, which retries a lost transaction. */
export const coreLists = (client: Client): ListClient => ({
  transaction: (callback, mode) =>
    client.transaction((tx) => callback(toCoreHandle(tx)), { mode, maxRetries: 2 }),
})

const toCoreHandle = (tx: Transaction): ListHandle => ({
  query: async (sql, args, signal) =>
    (await tx.execute(sql, args, { rowMode: 'array', signal })).rows.map(([value]) => value as number),
  savepoint: (callback) => tx.savepoint((inner) => callback(toCoreHandle(inner))),
})

/** Runs optimistic transactions, whose appends are returned as their writes. */
export const optimisticLists = (client: Client): ListClient => ({
  isOptimistic: true,
  async transaction(callback) {
    await optimistic(
      client,
      async (tx) => {
        const writes: { readonly sql: string; readonly args: readonly number[] }[] = []
        await callback(toOptimisticHandle(tx, writes))
        return writes
      },
      { maxConflicts: 2 },
    )
  },
})

function toOptimisticHandle(
  tx: OptimisticReader,
  writes: { readonly sql: string; readonly args: readonly number[] }[],
): ListHandle {
  return {
    async query(sql, args, signal) {
      if (sql.startsWith('insert')) {
        writes.push({ sql, args })
        return []
      }
      const { rows } = await tx.execute(sql, args, { rowMode: 'array', signal })
      const ownValues = writes.flatMap(({ args: [key, value] }) => (key === args[0] ? [value as number] : []))
      return [...rows.map(([value]) => value as number), ...ownValues]
    },
    async savepoint(callback) {
      const count = writes.length
      try {
        await callback(toOptimisticHandle(tx, writes))
      } catch (error) {
        writes.length = count
        throw error
      }
    },
  }
}

/** Runs transactions with Kysely's controlled transactions, because only they have savepoints. */
export function kyselyLists(client: Client): ListClient {
  const db = new Kysely<unknown>({ dialect: new BatonDialect({ client }) })
  const toHandle = (trx: ControlledTransaction<unknown>, depth = 0): ListHandle => ({
    query: async (sql, args) =>
      (await trx.executeQuery<{ value: number }>(CompiledQuery.raw(sql, args))).rows.map(
        ({ value }) => value,
      ),
    async savepoint(callback) {
      // a savepoint still exists after a rollback to it, and hides an outer one of the same name
      const name = `inside_${depth}`
      const inner = await trx.savepoint(name).execute()
      try {
        await callback(toHandle(inner, depth + 1))
        await inner.releaseSavepoint(name as never).execute()
      } catch (error) {
        await inner.rollbackToSavepoint(name as never).execute()
        throw error
      }
    },
  })
  return {
    async transaction(callback, mode) {
      const builder = db.startTransaction()
      const trx = await (mode === 'readonly' ? builder.setAccessMode('read only') : builder).execute()
      try {
        await callback(toHandle(trx))
        await trx.commit().execute()
      } catch (error) {
        if (!trx.isCommitted && !trx.isRolledBack) await trx.rollback().execute()
        throw error
      }
    },
  }
}

/** The common interface of Drizzle's transactions and savepoints. */
interface DrizzleTransaction {
  values(query: ReturnType<typeof withArgs>): PromiseLike<unknown[][]>
  transaction(callback: (inner: DrizzleTransaction) => Promise<void>): Promise<void>
}

export function drizzleLists(client: Client): ListClient {
  const db = drizzle(client)
  const toHandle = (tx: DrizzleTransaction): ListHandle => ({
    query: async (sql, args) => (await tx.values(withArgs(sql, args))).map(([value]) => value as number),
    savepoint: (callback) => tx.transaction((inner) => callback(toHandle(inner))),
  })
  return {
    transaction: (callback, mode) =>
      db.transaction((tx) => callback(toHandle(tx as unknown as DrizzleTransaction)), {
        behavior: mode === 'readonly' ? 'deferred' : 'immediate',
      }),
  }
}
