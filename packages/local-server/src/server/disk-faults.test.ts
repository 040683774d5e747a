import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { watchDiskFaults } from './disk-faults.ts'

const errorBody = (code: string): string =>
  `{"results":[{"type":"error","error":{"message":"disk I/O error","code":"${code}"}}]}`

/** Reads a response that arrives in chunks. @returns its text and the reported faults */
async function read(chunks: readonly (string | Buffer)[]): Promise<{ faults: string[]; text: string }> {
  const faults: string[] = []
  const body = watchDiskFaults(Readable.from(chunks, { objectMode: false }), (fault) => faults.push(fault))
  let text = ''
  for await (const chunk of body as Readable) text += String(chunk)
  return { faults, text }
}

test.each([
  ['SQLITE_FULL', 'SQLITE_FULL'],
  ['SQLITE_IOERR', 'SQLITE_IOERR'],
  ['SQLITE_IOERR_WRITE', 'SQLITE_IOERR'],
])('%s is reported, regardless of where a streamed response is split', async (code, fault) => {
  const response = errorBody(code)
  for (let index = 1; index < response.length; index += 1) {
    const { faults, text } = await read([
      Buffer.from(response.slice(0, index)),
      Buffer.from(response.slice(index)),
    ])
    expect([new Set(faults), text]).toEqual([new Set([fault]), response])
  }
  expect(
    (await read(Array.from({ length: response.length }, (_, index) => response.charAt(index)))).faults,
  ).toContain(fault)
  const reported: string[] = []
  expect(watchDiskFaults(response, (code) => reported.push(code))).toBe(response)
  const bytes = Buffer.from(response)
  expect(watchDiskFaults(bytes, (code) => reported.push(code))).toBe(bytes)
  expect(reported).toEqual([fault, fault])
})

test('each kind of fault is reported', async () => {
  const response = `[${['SQLITE_FULL', 'SQLITE_IOERR_READ', 'SQLITE_FULL'].map(errorBody).join()}]`
  expect((await read([response])).faults).toEqual(['SQLITE_FULL', 'SQLITE_IOERR'])
})

test('does not report other errors, or a value with the same text', async () => {
  for (const response of [
    errorBody('SQLITE_CONSTRAINT'),
    JSON.stringify({ value: errorBody('SQLITE_FULL') }),
  ])
    expect(await read([response])).toEqual({ faults: [], text: response })
})

test('a response that is no longer read is aborted', async () => {
  const source = Readable.from([Buffer.from('{'), Buffer.from('}')], { objectMode: false })
  const body = watchDiskFaults(source, () => {}) as Readable
  for await (const _ of body) break
  expect([body.destroyed, source.destroyed]).toEqual([true, true])
})

test('a body is closed if its reader is destroyed before reading', async () => {
  const body = new Readable({ read() {} })
  const watchedBody = watchDiskFaults(body, () => {}) as Readable
  watchedBody.destroy()
  await new Promise((resolve) => body.once('close', resolve))
  expect(body.destroyed).toBe(true)
})
