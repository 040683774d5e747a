import { expect, test } from 'vitest'
import { readWholeText } from './read-text.ts'

/** Reads bytes in parts of a given size. */
async function read(bytes: Buffer, partSize: number): Promise<string> {
  async function* parts(): AsyncGenerator<Buffer> {
    for (let start = 0; start < bytes.length; start += partSize) yield bytes.subarray(start, start + partSize)
  }
  return await readWholeText(parts(), 'x.sql')
}

test('a text can be read in parts of any size', async () => {
  for (const text of [
    '',
    'a',
    '日本',
    '\ufeffselect 1',
    'select 1 -- 😀 and more than the length of a header',
  ])
    for (const partSize of [1, 3, 15, 16, 17, 1_000])
      expect([partSize, await read(Buffer.from(text), partSize)]).toEqual([
        partSize,
        text.replace('\ufeff', ''),
      ])
})

test.each([
  ['UTF-16 text', Buffer.from('\ufeffselect 1; select 2', 'utf16le')],
  ['UTF-16 text', Buffer.from('\ufeffa', 'utf16le')],
  ['an SQLite file', Buffer.from('SQLite format 3\0 and pages')],
  ['may be Latin-1', Buffer.from('\u00feorn', 'latin1')],
  ['may be Latin-1', Buffer.from("select 'na\u00efve'; select 1", 'latin1')],
  ['may be Latin-1', Buffer.from('日').subarray(0, 2)],
])('what is not UTF-8 is recognized in parts of any size: %s', async (reason, bytes) => {
  for (const partSize of [1, 3, 15, 16, 17, 1_000])
    await expect(read(bytes, partSize), String(partSize)).rejects.toThrow(reason)
})
