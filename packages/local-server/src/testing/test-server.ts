import type { FailureKind, FailureOptions } from '../server/failure-options.ts'
import type { DatabaseAddress } from '../server/server.ts'

export interface CreatedDatabase {
  readonly name: string
  readonly address: DatabaseAddress
}

/** {@link FailureOptions} that can be sent to another process. */
export interface FailureData extends Omit<FailureOptions, 'sql'> {
  readonly sql?: { readonly source: string; readonly flags: string }
}

/** A server that gives each test a database: the one of this process, or the one of a whole test run. */
export interface TestServer {
  /**
   * Returns a database that nothing else uses: a copy of an SQLite file, or an empty one.
   * @param discarded names of databases to remove meanwhile
   */
  take(file: string | null, discarded?: readonly string[]): Promise<CreatedDatabase>
  /** Removes a database. Requests and transactions that a test has left open are aborted. */
  discard(name: string): Promise<void>
  /** Writes a database to a new SQLite file. */
  export(name: string, file: string): Promise<void>
  /** Makes requests to a database fail. @returns the number of the failure */
  fail(name: string, kind: FailureKind, options: FailureData): Promise<number>
  /** Returns the number of requests that have failed. */
  countFailed(failure: number): Promise<number>
  removeFailure(failure: number): Promise<void>
  close(): Promise<void>
}
