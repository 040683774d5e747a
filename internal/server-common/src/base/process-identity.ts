import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/**
 * Returns a string that distinguishes a process from a later one with the same id; null if the process does not exist. On Windows, it
 * is the same for all processes.
 */
export async function getProcessIdentity(pid: number): Promise<string | null> {
  if (!isAlive(pid)) return null
  if (process.platform === 'linux') {
    try {
      const status = await readFile(`/proc/${pid}/stat`, 'latin1')
      // the command in parentheses may contain spaces and parentheses
      const fields = status.slice(status.lastIndexOf(')') + 2).split(' ')
      return fields[0] === 'Z' ? null : `start ${fields[19]}`
    } catch {
      return null
    }
  }
  if (process.platform === 'win32') return 'alive'
  try {
    const { stdout } = await run('ps', ['-o', 'lstart=', '-p', String(pid)])
    return stdout.trim() || null
  } catch {
    return null
  }
}

/** Whether a process exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
