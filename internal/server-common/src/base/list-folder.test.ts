import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { listFolder } from './list-folder.ts'

test('a folder that cannot be read does not count as empty', async () => {
  const folder = createTemporaryDirectory()
  await mkdir(join(folder, 'sub'))
  await writeFile(join(folder, 'file'), '')
  await symlink('loop', join(folder, 'loop'))
  expect([...(await listFolder(folder))].sort()).toEqual(['file', 'loop', 'sub'])
  for (const name of ['missing', 'file', 'sub']) expect(await listFolder(join(folder, name))).toEqual([])
  await expect(listFolder(join(folder, 'loop'))).rejects.toMatchObject({ code: 'ELOOP' })
})
