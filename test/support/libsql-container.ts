import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { GenericContainer, type StartedTestContainer, Wait } from 'testcontainers'
import type { TestProject } from 'vitest/node'

const IMAGE = 'ghcr.io/tursodatabase/libsql-server:v0.24.32'
const [HTTP_PORT, ADMIN_PORT] = [8080, 9090]
/** Number of lines of the server's log that are shown when a test has failed. */
const MAX_LOG_LINES = 100

/** A container of the official image, shared by all files of a run. */
export interface LibsqlContainer {
  readonly url: string
  readonly adminUrl: string
  readonly adminKey: string
  /** The server's program, copied out of the image: for tests that start, kill and restart servers. */
  readonly sqldPath: string
}

declare module 'vitest' {
  interface ProvidedContext {
    libsqlContainer: LibsqlContainer
  }
}

/** Starts the container before the test files of a project, and stops it after them. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const adminKey = randomBytes(16).toString('hex')
  const log: string[] = []
  const container = await new GenericContainer(IMAGE)
    .withCommand([
      '/bin/sqld',
      '--enable-namespaces',
      `--http-listen-addr=0.0.0.0:${HTTP_PORT}`,
      `--admin-listen-addr=0.0.0.0:${ADMIN_PORT}`,
      `--admin-auth-key=${adminKey}`,
    ])
    .withExposedPorts(HTTP_PORT, ADMIN_PORT)
    .withWaitStrategy(
      Wait.forAll([
        Wait.forHttp('/health', HTTP_PORT),
        Wait.forHttp('/', ADMIN_PORT).withHeaders({ authorization: `basic ${adminKey}` }),
      ]),
    )
    .withLogConsumer((lines) => {
      lines.on('data', (line: unknown) => {
        log.push(String(line))
        if (log.length > MAX_LOG_LINES) log.shift()
      })
    })
    .start()
  const folder = await mkdtemp(join(tmpdir(), 'baton-image-'))
  const getAddress = (port: number): string =>
    `http://${container.getHost()}:${container.getMappedPort(port)}`
  project.provide('libsqlContainer', {
    url: getAddress(HTTP_PORT),
    adminUrl: getAddress(ADMIN_PORT),
    adminKey,
    sqldPath: await copyProgram(container, folder),
  })
  return async () => {
    if (project.vitest.state.getCountOfFailedTests() > 0) console.error(log.join(''))
    await container.stop()
    await rm(folder, { recursive: true })
  }
}

async function copyProgram(container: StartedTestContainer, folder: string): Promise<string> {
  const tar = spawn('tar', ['-x', '-C', folder], { stdio: ['pipe', 'inherit', 'inherit'] })
  const whenClosed = once(tar, 'close')
  await pipeline(await container.copyArchiveFromContainer('/bin/sqld'), tar.stdin)
  const [code] = (await whenClosed) as [number]
  if (code !== 0) throw new Error(`tar exited with ${code}`)
  return join(folder, 'sqld')
}
