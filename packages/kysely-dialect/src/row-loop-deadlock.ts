import { type DatabaseConnection, SingleConnectionProvider } from 'kysely'
import { BatonConnection } from './connection.ts'

/** The connection of each of Kysely's queues, known once its first query has begun. */
const connections = new WeakMap<SingleConnectionProvider, BatonConnection>()
let isInstalled = false

/**
 * Rejects a query that has waited for the client's `requestTimeoutMs` while the body of a loop over `stream()` of the same
 * connection or transaction runs: if the body awaits the query, each would wait for the other for ever. Kysely queues queries before they
 * reach the dialect, so this replaces a method of its queue; for other dialects nothing changes.
 */
export function installDeadlockDetection(): void {
  if (isInstalled) return
  isInstalled = true
  // oxlint-disable-next-line typescript/unbound-method -- called with the same `this`
  const { provideConnection } = SingleConnectionProvider.prototype
  SingleConnectionProvider.prototype.provideConnection = async function <T>(
    this: SingleConnectionProvider,
    consumer: (connection: DatabaseConnection) => Promise<T>,
  ): Promise<T> {
    let isWaiting = true
    let isRejected = false
    let cancel = (): void => {}
    const run = async (connection: DatabaseConnection): Promise<T> => {
      isWaiting = false
      cancel()
      if (connection instanceof BatonConnection) connections.set(this, connection)
      // a rejected query must not run later
      if (isRejected) throw deadlockError()
      return await consumer(connection)
    }
    const result = provideConnection.call(this, run) as Promise<T>
    // if no other query has the connection, `run` was called at once
    const loop = isWaiting ? connections.get(this)?.rowLoop : undefined
    if (!loop) return await result
    const timeout = new Promise<never>((_, reject) => {
      cancel = loop.limitWait(() => {
        isRejected = true
        reject(deadlockError())
      })
    })
    return await Promise.race([result, timeout])
  }
}

const deadlockError = (): TypeError =>
  new TypeError(
    'the query waits for a loop over stream(), which has not asked for its next row for too long: if the loop awaits the query, each waits for the other, because Kysely runs one query of a transaction at a time. Leave the loop first, or read the rows with execute()',
  )
