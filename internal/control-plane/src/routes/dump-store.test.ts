import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { DumpShare } from './dump-budget.ts'
import { DumpStore } from './dump-store.ts'

const BASE_URL = 'http://127.0.0.1:1'

async function open(): Promise<{ dumps: DumpStore; directory: string }> {
  const directory = createTemporaryDirectory()
  return { dumps: await DumpStore.open(directory), directory }
}

const DUMP = new TextEncoder().encode('SELECT 1;')

test('a dump can be taken once, and only by its organization', async () => {
  const { dumps } = await open()
  const url = BASE_URL + (await dumps.store('a', DUMP))
  await expect(dumps.take('b', url, BASE_URL)).rejects.toMatchObject({ status: 400 })
  expect(await dumps.take('a', url, BASE_URL)).toMatch(/\.sql$/)
  await expect(dumps.take('a', url, BASE_URL)).rejects.toThrow('dump not found')
})

test('a dump that cannot be written leaves no file', async () => {
  const { dumps, directory } = await open()
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield DUMP
    throw new Error('the disk is full')
  }
  const content = Object.assign(failing(), { length: DUMP.length })
  await expect(dumps.store('a', content as never)).rejects.toThrow('the disk is full')
  expect(await readdir(directory)).toEqual([])
})

test('a file that cannot be removed when its dump expires does not end the process', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const { dumps, directory } = await open()
  await dumps.store('a', DUMP)
  const [name = ''] = await readdir(directory)
  await rm(join(directory, name))
  await mkdir(join(directory, name))
  // vitest reports a rejection that is not handled
  vi.advanceTimersByTime(3_600_000)
  expect(await readdir(directory)).toEqual([name])
})

test('an unused dump expires after exactly an hour', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const { dumps, directory } = await open()
  const url = BASE_URL + (await dumps.store('a', DUMP))
  vi.advanceTimersByTime(3_599_999)
  expect(await readdir(directory)).toHaveLength(1)
  vi.advanceTimersByTime(1)
  await expect(dumps.take('a', url, BASE_URL)).rejects.toThrow('dump not found')
  await vi.waitFor(async () => expect(await readdir(directory)).toEqual([]), { timeout: 60_000 })
})

test('if an organization has more than 16 dumps, its oldest are removed; other organizations keep theirs', async () => {
  const { dumps, directory } = await open()
  const otherUrl = BASE_URL + (await dumps.store('b', DUMP))
  const urls: string[] = []
  for (let count = 0; count < 18; count += 1) urls.push(BASE_URL + (await dumps.store('a', DUMP)))
  expect(await readdir(directory)).toHaveLength(17)
  await expect(dumps.take('a', urls[1] ?? '', BASE_URL)).rejects.toThrow('dump not found')
  await dumps.take('a', urls[2] ?? '', BASE_URL)
  await dumps.take('b', otherUrl, BASE_URL)
  await dumps.close()
  expect((await readdir(directory)).length).toBe(2)
})

test('the shared budget is enforced, and released bytes can be reused', () => {
  const budget = { maxBytes: 10, usedBytes: 0 }
  const [first, second] = [new DumpShare(budget), new DumpShare(budget)]
  first.take(6)
  expect(() => second.take(5)).toThrow('too many dumps')
  second.take(4)
  first.release()
  first.release()
  second.take(6)
  expect(() => second.take(1)).toThrow('too many dumps')
  second.resize(1)
  expect(() => first.take(1)).toThrow('released')
  new DumpShare(budget).take(9)
})

test('stored dumps and dumps being received share a budget of 1 GiB', async () => {
  const { dumps } = await open()
  const receiving = dumps.createShare()
  receiving.take(1_024 ** 3 - DUMP.length)
  const url = BASE_URL + (await dumps.store('a', DUMP))
  await expect(dumps.store('b', DUMP)).rejects.toMatchObject({ status: 503 })
  await dumps.take('a', url, BASE_URL)
  await dumps.store('b', DUMP)
  receiving.release()
})

test('an upload counts once, while it is received and when it is stored', async () => {
  const { dumps } = await open()
  const other = dumps.createShare()
  other.take(1_024 ** 3 - DUMP.length - 1)
  const share = dumps.createShare()
  // a form is larger than its file
  share.take(DUMP.length + 1)
  const url = BASE_URL + (await dumps.store('a', DUMP, share))
  other.take(1)
  expect(() => other.take(1)).toThrow('too many dumps')
  await dumps.take('a', url, BASE_URL)
  other.take(DUMP.length)
})
