import { expect, test } from 'vitest'
import { describe } from '../endpoints/describe.ts'
import { serverVersion } from '../endpoints/server-status.ts'
import { optimistic } from '../optimistic/optimistic.ts'
import { createClient } from './client.ts'
import { executeMultiple } from './execute-multiple.ts'
import { readRows } from './read-rows.ts'
import { openStream } from './stream.ts'

// Nothing listens at this URL: a call that is not rejected at once would end with a TransportError.
const db = createClient({ url: 'http://127.0.0.1:9', maxRetries: 0 })
const SECRET = 'hunter2'
const ONE = ['select 1']
const execute = (options: unknown, args: unknown = []): Promise<unknown> =>
  db.execute('select 1', args as [], options as never)
const batch = db.batch.bind(db) as (statements: unknown, options?: unknown) => Promise<unknown>
const transaction = db.transaction.bind(db) as (callback: unknown, options?: unknown) => Promise<unknown>
const ofTransaction = (options: unknown) => transaction(() => {}, options)
type Handle = Record<'batch' | 'execute' | 'savepoint', (...args: unknown[]) => Promise<unknown>>
const inside = (work: (tx: Handle) => Promise<unknown>): Promise<unknown> =>
  db.transaction((tx) => work(tx as unknown as Handle))

test.each<[string, () => Promise<unknown>, RegExp]>([
  ['a mode of execute', () => execute({ mode: 'write' }), /unknown option mode; .*timeoutMs/],
  ['timeout', () => execute({ timeout: 5 }), /unknown option timeout; the options are .*timeoutMs/],
  ['rowMode', () => execute({ rowMode: 'arrays' }), /rowMode must be 'object' or 'array', not 'arrays'/],
  ['rowMode', () => execute({ rowMode: ['array'] }), /rowMode must be .*, not a value of type Array/],
  ['readOnly', () => execute({ readOnly: 1 }), /readOnly must be boolean, not a value of type number/],
  ['signal', () => execute({ signal: 5 }), /signal must be an AbortSignal, not 5/],
  [
    'a controller instead of its signal',
    () => execute({ signal: new AbortController() }),
    /signal must be an AbortSignal, not a value of type AbortController/,
  ],
  ['timeoutMs', () => execute({ timeoutMs: 0 }), /timeoutMs must be a positive .*, not 0/],
  ['headers', () => execute({ headers: new Headers() }), /unknown option headers/],
  [
    'a third argument',
    () => execute(SECRET, 'a'),
    /expected options { signal, .*, not a value of type string/,
  ],
  ['null', () => execute(null), /expected options .*, not null/],
  ['a Map', () => execute(new Map([['timeoutMs', 5]])), /expected options .*, not a value of type Map/],
  ['an array', () => batch(ONE, []), /expected options .*, not a value of type Array/],
  ['a Map of arguments', () => execute({}, new Map([['a', 1]])), /plain object, not a value of type Map/],
  [
    'a mode of another library',
    () => batch(ONE, { mode: 'write' }),
    /mode must be 'immediate' or .*, not 'write'/,
  ],
  [
    'a mode alone',
    () => batch(ONE, 'write'),
    /expected options { .*mode, foreignKeys }, not a value of type string/,
  ],
  [
    'foreignKeys',
    () => batch(ONE, { foreignKeys: false }),
    /foreignKeys must be 'on' or 'off', not a value of type boolean/,
  ],
  [
    'a string instead of an array',
    () => batch('select 1'),
    /expected an array of statements, not a value of type string/,
  ],
  ['options of an empty batch', () => batch([], { timeout: 5 }), /unknown option timeout/],
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
    () => ofTransaction('write'),
    /expected options { signal, timeoutMs, mode, maxRetries }, not a value of type string/,
  ],
  [
    'the mode of a transaction',
    () => ofTransaction({ mode: 'write' }),
    /mode must be 'immediate'.*not 'write'/,
  ],
  [
    'maxRetries of a transaction',
    () => ofTransaction({ maxRetries: '3' }),
    /maxRetries must be an integer >= 0, not a value of type string/,
  ],
  [
    'maxRetries that is not a number',
    () => ofTransaction({ maxRetries: Number.NaN }),
    /maxRetries must be an integer >= 0, not NaN/,
  ],
  ['timeoutMs of a transaction', () => ofTransaction({ timeoutMs: -5 }), /timeoutMs must be/],
  [
    'foreignKeys in a transaction',
    () => inside((tx) => tx.batch(ONE, { foreignKeys: 'off' })),
    /unknown option foreignKeys/,
  ],
  [
    'timeout in a transaction',
    () => inside((tx) => tx.execute('select 1', [], { timeout: 5 })),
    /unknown option timeout/,
  ],
  [
    'a savepoint’s name',
    () => inside((tx) => tx.savepoint('a')),
    /expected a callback before the options, not a value of type string/,
  ],
  [
    'a savepoint’s mode',
    () => inside((tx) => tx.savepoint(() => {}, { mode: 'immediate' })),
    /unknown option mode/,
  ],
  [
    'options of readRows',
    async () => readRows(db, 'select 1', [], { chunkSize: 5 } as never).next(),
    /unknown option chunkSize/,
  ],
  [
    'options of a script',
    () => executeMultiple(db, 'select 1', { rowMode: 'array' } as never),
    /unknown option rowMode/,
  ],
  [
    'options of commit',
    () => openStream(db).commit({ timeout: 5 } as never),
    /unknown option timeout; the options are signal, timeoutMs/,
  ],
  ['the signal of commit', () => openStream(db).commit({ signal: 5 } as never), /signal must be/],
  ['options of rollback', () => openStream(db).rollback({ timeout: 5 } as never), /unknown option timeout/],
  ['null for rollback', () => openStream(db).rollback(null as never), /expected options .*, not null/],
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
  const options = { signal: undefined, timeoutMs: undefined, readOnly: undefined, rowMode: undefined }
  await expect(db.execute('select 1', [], options)).rejects.toMatchObject({ code: 'NETWORK' })
  await expect(db.batch(ONE, { ...options, mode: undefined })).rejects.toMatchObject({ code: 'NETWORK' })
})

test('calls without statements reject for an aborted signal, a closed stream and a closed client, like all others', async () => {
  const options = { signal: AbortSignal.abort('enough') }
  const stream = openStream(db)
  for (const work of [
    () => db.batch([], options),
    () => db.transaction((tx) => tx.batch([], options)),
    () => stream.batch([], options),
    () => stream.chain([], options),
    () => executeMultiple(db, ' -- nothing', options),
    () => optimistic(db, (tx) => tx.batch([], options).then(() => [])),
  ] as (() => Promise<unknown>)[])
    await expect(work()).rejects.toBe('enough')
  expect([await stream.batch([]), await stream.chain([])]).toEqual([[], []])
  await stream.close()
  await expect(stream.batch([])).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
  await expect(stream.chain([])).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
  const closed = createClient({ url: 'http://127.0.0.1:9' })
  const unused = openStream(closed)
  const inside = closed.transaction(async (tx) => {
    const draining = closed.close({ drainMs: Infinity })
    const results = await tx.batch([])
    await closed.close()
    await draining
    await expect(tx.batch([])).rejects.toMatchObject({ code: 'CLOSED' })
    return results
  })
  expect(await inside).toEqual([])
  for (const work of [
    () => closed.batch([]),
    () => unused.batch([]),
    () => unused.chain([]),
    () => executeMultiple(closed, ''),
    () => optimistic(closed, () => []),
  ] as (() => Promise<unknown>)[])
    await expect(work()).rejects.toMatchObject({ code: 'CLOSED' })
})
