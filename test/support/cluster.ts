import { type SqldChild, startSqldChild } from '@batonsql/sqld-gateway/process'
import { stablePort } from './stable-port.ts'

/** A primary and its replicas, each a separate libsql-server on this machine. */
export interface Cluster extends AsyncDisposable {
  readonly primaryUrl: string
  readonly replicaUrls: readonly string[]
  /** Kills the primary. */
  killPrimary(): Promise<void>
  /** Rejects writes, or accepts them again. @param reason null = accept them */
  blockWrites(reason: string | null): Promise<void>
  /** Starts the primary again with the same data. */
  restartPrimary(): Promise<void>
}

/** Starts the servers without data. @param dataDirectory directory for the data of the primary, so that it can be restarted */
export async function startCluster(dataDirectory: string, replicaCount: number): Promise<Cluster> {
  const grpc = `127.0.0.1:${await stablePort()}`
  const port = await stablePort()
  const primaryUrl = `http://127.0.0.1:${port}`
  const startPrimary = (): Promise<SqldChild> =>
    startSqldChild({
      dataDirectory,
      port,
      serverArguments: ['--grpc-listen-addr', grpc, '--http-self-url', primaryUrl],
    })
  let primary = await startPrimary()
  const replicas: SqldChild[] = []
  for (let index = 0; index < replicaCount; index++) {
    const replicaPort = await stablePort()
    const serverArguments = ['--primary-grpc-url', `http://${grpc}`, '--http-primary-url', primaryUrl]
    serverArguments.push('--http-self-url', `http://127.0.0.1:${replicaPort}`)
    replicas.push(await startSqldChild({ port: replicaPort, serverArguments }))
  }
  return {
    primaryUrl,
    replicaUrls: replicas.map((replica) => replica.url),
    killPrimary: () => primary.kill(),
    blockWrites: (reason) =>
      primary.admin.configure('default', {
        allow_attach: false,
        block_reads: false,
        block_writes: reason !== null,
        ...(reason !== null && { block_reason: reason }),
      }),
    async restartPrimary() {
      primary = await startPrimary()
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...replicas, primary].map((server) => server.close()))
    },
  }
}
