import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'

/** A server with an empty database. */
export interface BenchServer {
  readonly url: string
  /** Returns the size of the largest WAL, in bytes. */
  walBytes(): Promise<number>
  close(): Promise<void>
}

/** The servers that are compared, each with its data on the same disk as the repository. */
export const SERVERS: Readonly<Record<string, () => Promise<BenchServer>>> = {
  'libsql-server': () =>
    open(async (dataDirectory) => {
      const sqld = await startSqld({ dataDirectory })
      return { url: sqld.url, close: () => sqld.kill() }
    }),
  'baton dev --backend sqld': () =>
    open(async (dataDirectory) => {
      const server = await startLocalServer({ backend: 'sqld', dataDirectory })
      return { url: server.url, close: () => server.close() }
    }),
  embedded: () =>
    open(async (dataDirectory) => {
      const server = await startLocalServer({ dataDirectory })
      return { url: server.url, close: () => server.close() }
    }),
}

async function open(
  start: (dataDirectory: string) => Promise<{ readonly url: string; close(): Promise<void> }>,
): Promise<BenchServer> {
  // the default temporary directory may be in memory
  const directory = await mkdtemp(join(process.cwd(), '.contention-'))
  const { url, close } = await start(directory)
  return {
    url,
    walBytes: () => findLargestWal(directory),
    async close() {
      await close()
      await rm(directory, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}

async function findLargestWal(directory: string): Promise<number> {
  const files = await readdir(directory, { recursive: true })
  const sizes = files
    .filter((name) => /[-.]wal$/.test(name))
    .map(async (name) => (await stat(join(directory, name)).catch(() => null))?.size ?? 0)
  return Math.max(0, ...(await Promise.all(sizes)))
}
