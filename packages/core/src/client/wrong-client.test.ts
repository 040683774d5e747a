import { expect, test } from 'vitest'
import { dump } from '../backup/dump.ts'
import { exportFile } from '../backup/export-file.ts'
import { restore } from '../backup/restore.ts'
import { describe } from '../endpoints/describe.ts'
import { jobs } from '../endpoints/jobs.ts'
import { listen } from '../endpoints/listen.ts'
import { isHealthy, serverVersion } from '../endpoints/server-status.ts'
import { optimistic, runOptimistically } from '../optimistic/optimistic.ts'
import { Client } from './client.ts'
import { executeMultiple } from './execute-multiple.ts'
import { readRows } from './read-rows.ts'
import { openStream } from './stream.ts'

/** The functions whose first argument is a client. */
const FUNCTIONS: Readonly<Record<string, (db: Client) => unknown>> = {
  describe: (db) => describe(db, 'select 1'),
  dump,
  executeMultiple: (db) => executeMultiple(db, 'select 1'),
  exportFile: (db) => exportFile(db).next(),
  isHealthy,
  'jobs.get': (db) => jobs.get(db, 1),
  'jobs.list': (db) => jobs.list(db),
  'jobs.wait': (db) => jobs.wait(db, 1),
  listen: (db) => listen(db, { table: 't' }),
  openStream,
  optimistic: (db) => optimistic(db, () => []),
  readRows: (db) => readRows(db, 'select 1'),
  restore: (db) => restore(db, 'select 1;'),
  runOptimistically: (db) => runOptimistically(db, async () => {}),
  serverVersion,
  'a method of the client': (db) => Client.prototype.transaction.call(db, () => {}),
}

test.each(Object.entries(FUNCTIONS))('%s rejects what is not a client', async (_, call) => {
  // a client of another library, or of another copy of this package, looks like one
  for (const [value, description] of [
    [undefined, 'undefined'],
    [null, 'null'],
    [5, 'a value of type number'],
    ['libsql://secret', 'a value of type string'],
    [{ execute: () => {}, batch: () => {}, transaction: () => {} }, 'a value of type Object'],
  ] as const)
    await expect((async () => call(value as never))()).rejects.toThrow(
      new TypeError(
        `expected a client from createClient() of this copy of @batonsql/core, not ${description}`,
      ),
    )
})
