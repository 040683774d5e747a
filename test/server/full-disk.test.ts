import { execFile, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'

const PROGRAM = fileURLToPath(new URL('programs/full-disk.ts', import.meta.url))
/** Runs a shell with a mount namespace of its own, so that the disk is gone when it ends. */
const NAMESPACE = ['--map-root-user', '--mount', 'sh', '-c'] as const
const canMount = spawnSync('unshare', [...NAMESPACE, 'mount -t tmpfs tmpfs /mnt']).status === 0

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
    const disk = createTemporaryDirectory()
    const script = 'mount -t tmpfs -o size=12m tmpfs "$0" && exec "$@"'
    const program = [
      process.execPath,
      '--conditions=@batonsql/source',
      '--no-warnings',
      PROGRAM,
      disk,
      backend,
      deleted,
    ]
    const { stdout } = await promisify(execFile)('unshare', [...NAMESPACE, script, disk, ...program])
    const isSnapshot = deleted.endsWith('kept')
    expect(JSON.parse(stdout)).toEqual({ statuses: [200, 200, isSnapshot ? 200 : 404, 200], hasFreed: true })
  },
)
