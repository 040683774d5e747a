import { type Client, createClient } from '@batonsql/core'
import type { LocalServer } from '@batonsql/local-server'
import { close, execute, pipeline } from '../server/wire.ts'

/** A transaction that holds the write lock of `app` while another waits for it. */
export interface LockContention extends AsyncDisposable {
  /** Commits, so that the waiting writer can continue. */
  finish(): Promise<void>
}

/** Starts a transaction that writes, and then another writer. */
export async function startLockContention(url: string): Promise<LockContention> {
  const transaction = await pipeline(url, [
    execute('begin immediate'),
    execute('update orders set state = ? where id = ?', 'paid', 2),
  ])
  let waiter: Promise<unknown> | null = pipeline(url, [
    execute("insert into orders (customer, state) values ('lin', 'new')"),
    close,
  ])
  const finish = async (): Promise<void> => {
    if (waiter === null) return
    await pipeline(url, [execute('commit'), close], { baton: transaction.baton })
    await waiter
    waiter = null
  }
  return { finish, [Symbol.asyncDispose]: finish }
}

/** Runs the workload of a small shop: reads, writes, transactions, and an error. */
export async function runShopWorkload(server: LocalServer): Promise<void> {
  const app = createClient({ url: server.urlOf('app') })
  const billing = createClient({ url: server.urlOf('billing') })
  try {
    await app.batch([
      'create table orders (id integer primary key, customer text, state text)',
      "insert into orders (customer, state) values ('ada', 'new'), ('bob', 'new'), ('eve', 'paid')",
    ])
    await billing.batch(['create table invoice (id integer primary key, order_id int, cents int)'])
    await sell(app, billing, 1)
    await app.execute('select * from order').catch(() => {})
    await sell(app, billing, 2)
  } finally {
    await Promise.all([app.close(), billing.close()])
  }
}

async function sell(app: Client, billing: Client, id: number): Promise<void> {
  await app.transaction(async (tx) => {
    await tx.execute('select * from orders where id = ?', [id])
    await pauseBetweenStatements(350)
    await tx.execute("update orders set state = 'paid' where id = ?", [id])
    await billing.execute('insert into invoice (order_id, cents) values (?, ?)', [id, 4_200])
    await pauseBetweenStatements(300)
  })
  await Promise.all([
    app.execute('select customer, count(*) from orders group by customer'),
    billing.execute('select sum(cents) from invoice where order_id in (1, 2, 3)'),
  ])
}

/** Pauses, like a program that works between its statements; the timeline shows the pause. */
function pauseBetweenStatements(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
