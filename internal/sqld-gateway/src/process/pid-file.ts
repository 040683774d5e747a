import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { getProcessIdentity, isMissing } from '@batonsql/server-common/base'

const getPidFile = (directory: string): string => join(directory, 'sqld.pid')

/** Records the server of a data directory. */
export async function writePidFile(directory: string, pid: number): Promise<void> {
  await writeFile(getPidFile(directory), JSON.stringify({ pid, identity: await getProcessIdentity(pid) }))
}

/** Called when the server of a data directory has ended. */
export async function removePidFile(directory: string): Promise<void> {
  await rm(getPidFile(directory), { force: true })
}

/** Kills a server that a previous owner of the data directory, which was itself killed, has left running. */
export async function killOrphan(directory: string): Promise<void> {
  try {
    const { pid, identity } = JSON.parse(await readFile(getPidFile(directory), 'utf8')) as {
      readonly pid: number
      readonly identity: string | null
    }
    if (identity === null || (await getProcessIdentity(pid)) !== identity) return
    process.kill(pid, 'SIGKILL')
    while ((await getProcessIdentity(pid)) === identity) await sleep(5)
  } catch (error) {
    // there is no pid file, it is incomplete, or the process has exited
    const isGone = isMissing(error) || error instanceof SyntaxError || isNoProcess(error)
    if (!isGone) throw error
  }
}

const isNoProcess = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ESRCH'
