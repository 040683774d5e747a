import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '@batonsql/core'
import { createClient as createLibsqlClient } from '@libsql/client/http'

/** A write transaction of the load. */
export interface Work {
  readonly statements: readonly string[]
  /** Pause between two statements. */
  readonly thinkMs: number
  /** Time after which the program aborts it; null if it never does. */
  readonly abortAfterMs: number | null
}

/** A program that uses a database through one client. */
export interface Program {
  /** Runs a write transaction. Rejects if it failed or was aborted. */
  write(work: Work): Promise<void>
  /** Runs a read transaction and keeps it open for `openMs`. */
  report(sql: string, openMs: number): Promise<void>
  /** Closes the client. */
  close(): Promise<void>
}

/** The clients that are compared. Each takes the URL of a database. */
export const CLIENTS: Readonly<Record<string, (url: string) => Program>> = {
  '@batonsql/core': openBaton,
  '@libsql/client': openLibsql,
}

function openBaton(url: string): Program {
  const db = createClient({ url })
  return {
    async write({ statements, thinkMs, abortAfterMs }) {
      const signal = abortAfterMs === null ? undefined : AbortSignal.timeout(abortAfterMs)
      await db.transaction(async (tx) => {
        for (const sql of statements) {
          await tx.execute(sql, [], { signal })
          if (thinkMs > 0) await pause(thinkMs)
        }
      })
    },
    async report(sql, openMs) {
      await db.transaction(
        async (tx) => {
          await tx.execute(sql)
          await pause(openMs)
        },
        { mode: 'deferred' },
      )
    },
    close: () => db.close(),
  }
}

/** This client does not support signals: a transaction is aborted by closing it while its statement is running. */
function openLibsql(url: string): Program {
  const db = createLibsqlClient({ url })
  return {
    async write({ statements, thinkMs, abortAfterMs }) {
      const transaction = await db.transaction('write')
      const timer = abortAfterMs === null ? undefined : setTimeout(() => transaction.close(), abortAfterMs)
      try {
        for (const sql of statements) {
          await transaction.execute(sql)
          if (thinkMs > 0) await pause(thinkMs)
        }
        await transaction.commit()
      } finally {
        clearTimeout(timer)
        transaction.close()
      }
    },
    async report(sql, openMs) {
      const transaction = await db.transaction('deferred')
      try {
        await transaction.execute(sql)
        await pause(openMs)
      } finally {
        transaction.close()
      }
    },
    close: async () => db.close(),
  }
}
