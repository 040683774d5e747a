import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { writeAtomically, writeNewFile } from './write-atomically.ts'

async function* parts(text: string): AsyncGenerator<Uint8Array> {
  for (const char of text) {
    await new Promise(setImmediate)
    yield Buffer.from(char)
  }
}

test('two files that are written under one name at the same time are not mixed, and nothing is left', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'a', 'data.db')
  const results = await Promise.allSettled(['aaaaaa', 'bb'].map((text) => writeNewFile(file, parts(text))))
  expect(results.map(({ status }) => status)).toContain('fulfilled')
  expect(['aaaaaa', 'bb']).toContain(await readFile(file, 'utf8'))
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect(await readdir(join(folder, 'a'))).toEqual(['data.db'])
  await expect(writeNewFile(file, parts('c'))).rejects.toThrow('already exists')
})

test('the error of a file that cannot be written names the file as the caller does', async () => {
  for (const file of ['/dev/null/dump.sql', '/dev/null/$&.sql'])
    await expect(writeAtomically(file, 'text', 0o600)).rejects.toThrow(
      `ENOTDIR: not a directory, open '${file}'`,
    )
})
