import { execFile, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'

/** Runs a shell with a mount namespace of its own, so that the disk is gone when it ends. */
const NAMESPACE = ['--map-root-user', '--mount', 'sh', '-c'] as const
const canMount = spawnSync('unshare', [...NAMESPACE, 'mount -t tmpfs tmpfs /mnt']).status === 0

/** Runs a program on a small disk of its own. @returns its output */
async function runOnSmallDisk(program: URL, ...values: readonly string[]): Promise<unknown> {
  const disk = createTemporaryDirectory()
  const script = 'mount -t tmpfs -o size=12m tmpfs "$0" && exec "$@"'
  const node = [process.execPath, '--conditions=@batonsql/source', '--no-warnings', fileURLToPath(program)]
  const { stdout } = await promisify(execFile)('unshare', [
    ...NAMESPACE,
    script,
    disk,
    ...node,
    disk,
    ...values,
  ])
  return JSON.parse(stdout)
}

test.skipIf(!canMount).each([
  ['embedded', '/databases/big'],
  ['embedded', '/groups/extra'],
  ['embedded', '/databases/big/snapshots/kept'],
  ['sqld', '/databases/big'],
  ['sqld', '/groups/extra'],
  ['sqld', '/databases/big/snapshots/kept'],
])(
  'on a full disk of the back end %s, DELETE %s succeeds, and the space is free again',
  async (backend, deleted) => {
    const output = await runOnSmallDisk(new URL('programs/full-disk.ts', import.meta.url), backend, deleted)
    const isSnapshot = deleted.endsWith('kept')
    expect(output).toEqual({ statuses: [200, 200, isSnapshot ? 200 : 404, 200], hasFreed: true })
  },
)

test.skipIf(!canMount).each([
  ['embedded', '1000000'],
  // enough for the copy, but not for its checkpoint
  ['embedded', '6000000'],
  ['sqld', '1000000'],
])(
  'if the disk is too full for a copy of a database, the error says so: %s, %s bytes',
  async (backend, freeBytes) => {
    const program = new URL('programs/copies-on-full-disk.ts', import.meta.url)
    const full = expect.stringMatching(/ENOSPC|disk (?:is )?full/)
    const response = '500 {"error":"the disk of the server is full"}'
    expect(await runOnSmallDisk(program, backend, freeBytes)).toEqual([full, full, full, response, response])
  },
)
