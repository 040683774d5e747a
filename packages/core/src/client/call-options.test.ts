import { expect, test } from 'vitest'
import { describe } from '../endpoints/describe.ts'
import { serverVersion } from '../endpoints/server-status.ts'
import { createClient } from './client.ts'
import { executeMultiple } from './execute-multiple.ts'
import { readRows } from './read-rows.ts'

// Nothing listens at this URL: a call that is not rejected at once would end with a TransportError.
const db = createClient({ url: 'http://127.0.0.1:9', maxRetries: 0 })
const SECRET = 'hunter2'
const rows = async (options: unknown): Promise<unknown> =>
  readRows(db, 'select 1', [], options as never).next()
const transaction = db.transaction.bind(db) as (callback: unknown, options?: unknown) => Promise<unknown>
const call = {
  execute: db.execute.bind(db) as (...args: unknown[]) => Promise<unknown>,
  batch: db.batch.bind(db) as (...args: unknown[]) => Promise<unknown>,
}
type Handle = Record<'batch' | 'execute' | 'savepoint', (...args: unknown[]) => Promise<unknown>>
const inTransaction = (work: (tx: Handle) => Promise<unknown>): Promise<unknown> =>
  db.transaction((tx) => work(tx as unknown as Handle))

test.each<[string, () => Promise<unknown>, RegExp]>([
  [
    'a mode of execute',
    () => call.execute('select 1', [], { mode: 'write' }),
    /unknown option mode; .*timeoutMs/,
  ],
  [
    'timeout',
    () => call.execute('select 1', [], { timeout: 5 }),
    /unknown option timeout; the options are .*timeoutMs/,
  ],
  [
    'rowMode',
    () => call.execute('select 1', [], { rowMode: 'arrays' }),
    /rowMode must be 'object' or 'array', not 'arrays'/,
  ],
  [
    'rowMode',
    () => call.execute('select 1', [], { rowMode: ['array'] }),
    /rowMode must be .*, not a value of type object/,
  ],
  [
    'readOnly',
    () => call.execute('select 1', [], { readOnly: 1 }),
    /readOnly must be boolean, not a value of type number/,
  ],
  ['signal', () => call.execute('select 1', [], { signal: 5 }), /signal must be an AbortSignal, not 5/],
  [
    'a controller instead of its signal',
    () => call.execute('select 1', [], { signal: new AbortController() }),
    /signal must be an AbortSignal, not a value of type object/,
  ],
  [
    'timeoutMs',
    () => call.execute('select 1', [], { timeoutMs: 0 }),
    /timeoutMs must be a positive .*, not 0/,
  ],
  ['headers', () => call.execute('select 1', [], { headers: new Headers() }), /unknown option headers/],
  [
    'a third argument',
    () => call.execute('select ?, ?', 'a', SECRET),
    /expected options { signal, .*, not a value of type string/,
  ],
  ['null', () => call.execute('select 1', [], null), /expected options .*, not null/],
  [
    'a mode of another library',
    () => call.batch(['select 1'], { mode: 'write' }),
    /mode must be 'immediate' or .*, not 'write'/,
  ],
  [
    'a mode alone',
    () => call.batch(['select 1'], 'write'),
    /expected options { .*mode, foreignKeys }, not a value of type string/,
  ],
  [
    'foreignKeys',
    () => call.batch(['select 1'], { foreignKeys: false }),
    /foreignKeys must be 'on' or 'off', not a value of type boolean/,
  ],
  [
    'a string instead of an array',
    () => call.batch('select 1'),
    /expected an array of statements, not a value of type string/,
  ],
  ['options of an empty batch', () => call.batch([], { timeout: 5 }), /unknown option timeout/],
  [
    'a mode and no callback',
    () => transaction('write'),
    /expected a callback before the options, not a value of type string/,
  ],
  [
    'a missing callback',
    () => transaction(undefined),
    /expected a callback before the options, not undefined/,
  ],
  [
    'a mode after the callback',
    () => transaction(() => {}, 'write'),
    /expected options { signal, timeoutMs, mode, maxRetries }, not a value of type string/,
  ],
  [
    'the mode of a transaction',
    () => transaction(() => {}, { mode: 'write' }),
    /mode must be 'immediate'.*not 'write'/,
  ],
  [
    'maxRetries of a transaction',
    () => transaction(() => {}, { maxRetries: '3' }),
    /maxRetries must be an integer >= 0, not a value of type string/,
  ],
  [
    'maxRetries that is not a number',
    () => transaction(() => {}, { maxRetries: Number.NaN }),
    /maxRetries must be an integer >= 0, not NaN/,
  ],
  ['timeoutMs of a transaction', () => transaction(() => {}, { timeoutMs: -5 }), /timeoutMs must be/],
  [
    'foreignKeys in a transaction',
    () => inTransaction((tx) => tx.batch(['select 1'], { foreignKeys: 'off' })),
    /unknown option foreignKeys/,
  ],
  [
    'timeout in a transaction',
    () => inTransaction((tx) => tx.execute('select 1', [], { timeout: 5 })),
    /unknown option timeout/,
  ],
  [
    'a savepoint’s name',
    () => inTransaction((tx) => tx.savepoint('a')),
    /expected a callback before the options, not a value of type string/,
  ],
  [
    'a savepoint’s mode',
    () => inTransaction((tx) => tx.savepoint(() => {}, { mode: 'immediate' })),
    /unknown option mode/,
  ],
  ['options of readRows', () => rows({ chunkSize: 5 }), /unknown option chunkSize/],
  [
    'options of a script',
    () => executeMultiple(db, 'select 1', { rowMode: 'array' } as never),
    /unknown option rowMode/,
  ],
  ['a lone surrogate in describe', () => describe(db, "select '\ud800'"), /the SQL has a lone surrogate/],
  ['options of serverVersion', () => serverVersion(db, { timeout: 5 } as never), /unknown option timeout/],
  ['options of close', () => db.close({ timeoutMs: 5 } as never), /unknown option timeoutMs.*drainMs/],
  ['drainMs', () => db.close({ drainMs: -1 }), /drainMs must be a positive .*, not -1/],
])('rejects %s before anything is sent', async (_, work, message) => {
  const error: unknown = await work().catch((reason: unknown) => reason)
  expect((error as Error).name).toMatch(/^(?:Type|Range)Error$/)
  expect((error as Error).message).toMatch(message)
  expect((error as Error).message).not.toContain(SECRET)
})

test('undefined options are ignored', async () => {
  const undefinedOptions = {
    signal: undefined,
    timeoutMs: undefined,
    readOnly: undefined,
    rowMode: undefined,
  }
  await expect(db.execute('select 1', [], undefinedOptions)).rejects.toMatchObject({ code: 'NETWORK' })
  await expect(db.batch(['select 1'], { ...undefinedOptions, mode: undefined })).rejects.toMatchObject({
    code: 'NETWORK',
  })
})
