import type { DatabaseAddress } from '../server/server.ts'

/** The database of a test. */
export interface CreatedDatabase {
  readonly name: string
  readonly address: DatabaseAddress
}

/** A server that gives each test a database: the one of this process, or the one of a whole test run. */
export interface TestServer {
  /** Returns a database that nothing else uses: a copy of an SQLite file, or an empty one. */
  take(file: string | null): Promise<CreatedDatabase>
  /** Removes a database. Requests and transactions that a test has left open are aborted. */
  discard(name: string): Promise<void>
  /** Writes a database to a new SQLite file. */
  export(name: string, file: string): Promise<void>
  close(): Promise<void>
}
