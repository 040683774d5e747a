import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/**
 * Returns a string that distinguishes a process from a later one with the same id; null if the process does not
 * exist, has ended but was not waited for, or cannot be examined.
 * Every process on the machine reads the same one. On Windows, it is the same for all processes.
 */
export async function getProcessIdentity(pid: number): Promise<string | null> {
  if (!isAlive(pid)) return null
  if (process.platform === 'linux') {
    try {
      const stat = await readFile(`/proc/${pid}/stat`, 'latin1')
      // the command in parentheses may contain spaces and parentheses
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      // fields 3 and 22 of proc(5): the state, and the time of the start in ticks since boot
      return fields[0] === 'Z' ? null : `start ${fields[19]}`
    } catch {
      return null
    }
  }
  if (process.platform === 'win32') return 'alive'
  try {
    // prints local time in words of the locale, which another process may have set otherwise
    const env = { ...process.env, TZ: 'UTC', LC_ALL: 'C' }
    const { stdout } = await run('ps', ['-o', 'lstart=', '-p', String(pid)], { env })
    return stdout.trim() || null
  } catch {
    return null
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
