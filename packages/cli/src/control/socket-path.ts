import { lstatSync, type Stats } from 'node:fs'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'

/** Name of the control socket in a data directory. */
const SOCKET = 'control.sock'

/** Longest path of a socket on every system, in bytes. */
export const MAX_SOCKET_PATH_BYTES = 103

export const getSocketPath = (directory: string): string => join(directory, SOCKET)

/**
 * Returns the path of the link to the data directory of the server on a port of this machine. The link lets commands find the
 * directory, and keeps the path of the socket short enough.
 */
export const getLinkPath = (runtimeDirectory: string, port: number): string =>
  join(runtimeDirectory, String(port))

/**
 * Returns this user's directory for the links. It may not exist yet.
 * @throws Error if other users can write to it, or if it cannot be examined
 */
export function findRuntimeDirectory(env: Readonly<Record<string, string | undefined>>): string {
  // unlike `userInfo()`, this works for a user without an entry in the system's user database, as in many containers
  const uid = process.getuid?.() ?? -1
  const parent = env['XDG_RUNTIME_DIR'] ?? ''
  // the specification of the variable requires ignoring a relative path
  const directory = isAbsolute(parent) ? join(parent, 'baton') : join(tmpdir(), `baton-${uid}`)
  const status = getStatus(directory)
  const isPrivate =
    status === undefined || (status.isDirectory() && status.uid === uid && (status.mode & 0o077) === 0)
  if (!isPrivate) throw new Error(`${directory} must be a directory that only its owner can access`)
  return directory
}

/** Returns the status of a file or directory; undefined if it does not exist. @throws Error if it cannot be examined */
function getStatus(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new Error(`${path} cannot be used: ${code} (is XDG_RUNTIME_DIR a directory?)`, { cause: error })
  }
}
