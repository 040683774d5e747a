import { lstatSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'

/** Name of the control socket in a data directory. */
const SOCKET = 'control.sock'

/** Returns the path of the control socket in a directory. */
export const socketIn = (directory: string): string => join(directory, SOCKET)

/**
 * Returns the path of the link to the data directory of the server on a port of this machine. The link lets commands find the
 * directory, and keeps the path of the socket within the limit of the system, 108 bytes.
 */
export const directoryLink = (runtimeDirectory: string, port: number): string =>
  join(runtimeDirectory, String(port))

/** Returns the directory of the links of this user, which may not exist. @throws Error if other users can write to it */
export function findRuntimeDirectory(env: Readonly<Record<string, string | undefined>>): string {
  const { uid } = userInfo()
  const parent = env['XDG_RUNTIME_DIR']
  const directory = parent ? join(parent, 'baton') : join(tmpdir(), `baton-${uid}`)
  const status = lstatSync(directory, { throwIfNoEntry: false })
  const isPrivate =
    status === undefined || (status.isDirectory() && status.uid === uid && (status.mode & 0o077) === 0)
  if (!isPrivate) throw new Error(`${directory} must be a directory that only its owner can access`)
  return directory
}
