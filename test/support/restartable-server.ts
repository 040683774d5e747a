import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'
import { startSqldChild } from '@batonsql/sqld-gateway/process'
import { closeOnError } from './close-on-error.ts'
import { stablePort } from './stable-port.ts'

/** A database of limited size on a server that can be restarted. libsql-server is killed first, as in a crash. */
export interface RestartableServer extends AsyncDisposable {
  readonly config: { readonly url: string; readonly authToken?: string | undefined }
  restart(): Promise<void>
}

/** Starts a server of this run's kind; null for servers that the tests may not stop. */
export async function openRestartableServer(
  target: string,
  sizeLimitBytes: number,
): Promise<RestartableServer | null> {
  if (target !== 'embedded' && target !== 'sqld') return null
  const dataDirectory = await mkdtemp(join(tmpdir(), 'baton-restartable-'))
  const server = await (target === 'sqld' ? openSqld : openEmbedded)(dataDirectory, sizeLimitBytes)
  return {
    ...server,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]()
      await rm(dataDirectory, { recursive: true, force: true })
    },
  }
}

async function openSqld(dataDirectory: string, sizeLimitBytes: number): Promise<RestartableServer> {
  const port = await stablePort()
  let sqld = await startSqldChild({ dataDirectory, port })
  const { url } = sqld
  await closeOnError(sqld, () =>
    sqld.admin.configure('default', {
      allow_attach: false,
      block_reads: false,
      block_writes: false,
      max_db_size: String(sizeLimitBytes),
    }),
  )
  return {
    config: { url },
    async restart() {
      await sqld.kill()
      sqld = await startSqldChild({ dataDirectory, port })
    },
    [Symbol.asyncDispose]: () => sqld.close(),
  }
}

async function openEmbedded(dataDirectory: string, sizeLimitBytes: number): Promise<RestartableServer> {
  const port = await stablePort()
  let server = await startLocalServer({ dataDirectory, port })
  const { url, authToken } = await closeOnError(server, () =>
    server.createDatabase('limited', { sizeLimit: String(sizeLimitBytes) }),
  )
  return {
    config: { url, authToken },
    async restart() {
      await server.close()
      server = await startLocalServer({ dataDirectory, port })
    },
    [Symbol.asyncDispose]: () => server.close(),
  }
}
