import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ControlPlane } from '@batonsql/control-plane'
import { startLocalServer } from '@batonsql/local-server'
import { DirectoryLock } from '@batonsql/server-common/base'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { startDevServer } from '../server/dev-server.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'

const CONTENDER_PROGRAM = fileURLToPath(new URL('programs/lock-contender.ts', import.meta.url))
const CONTENDER_COUNT = 8

/** The files in the directory when all processes start at once. */
const INITIAL_FILES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'a fresh directory': {},
  'the file of a released lock': { 'baton.lock.db': '' },
  'the owner recorded by an earlier version': {
    'baton.lock': JSON.stringify({ pid: 2 ** 22 + 1, identity: 'start 1', token: 'one' }),
  },
  'the record of a killed process': {
    'baton.lock': JSON.stringify({ pid: 1, host: 'elsewhere' }),
    'baton.lock.db': '',
  },
}

class Contender {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>

  /** @param wrapper a command that runs the program in a separate namespace */
  constructor(directory: string, afterAcquiring: 'wait' | 'die' = 'wait', wrapper: readonly string[] = []) {
    const program = [
      process.execPath,
      '--disable-warning=ExperimentalWarning',
      CONTENDER_PROGRAM,
      directory,
      afterAcquiring,
    ]
    const [command = '', ...args] = [...wrapper, ...program]
    // `unshare` prints an error when it is killed
    this.#child = spawn(command, args, {
      stdio: ['pipe', 'pipe', wrapper.length === 0 ? 'inherit' : 'ignore'],
    })
    this.#lines = readLines(this.#child)
  }

  async nextLine(): Promise<string> {
    const { value } = (await this.#lines.next()) as { value?: string }
    return value ?? 'gone'
  }

  go(): void {
    this.#child.stdin?.write('go\n')
  }

  async kill(): Promise<void> {
    const exited = once(this.#child, 'exit')
    // killing `unshare` might leave its child running; when the child, the first process of the namespace, exits, `unshare` exits
    process.kill(getChildPid(this.#child.pid as number), 'SIGKILL')
    await exited
  }

  async end(): Promise<void> {
    const { exitCode, signalCode } = this.#child
    const exited = exitCode !== null || signalCode !== null ? Promise.resolve() : once(this.#child, 'exit')
    this.#child.stdin?.end()
    await exited
  }
}

function getChildPid(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim().split(' ')[0])
}

async function* readLines(child: ChildProcess): AsyncGenerator<string> {
  let remainder = ''
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    const lines = (remainder + chunk.toString()).split('\n')
    remainder = lines.pop() as string
    yield* lines
  }
}

test.each(Object.keys(INITIAL_FILES))(
  'exactly one of many simultaneous processes acquires the lock: %s',
  async (name) => {
    for (let round = 0; round < 3; round += 1) {
      const directory = createTemporaryDirectory()
      for (const [file, text] of Object.entries(INITIAL_FILES[name] ?? {}))
        await writeFile(join(directory, file), text)
      const contenders = Array.from({ length: CONTENDER_COUNT }, () => new Contender(directory))
      await Promise.all(contenders.map((contender) => contender.nextLine()))
      for (const contender of contenders) contender.go()
      const outcomes = await Promise.all(contenders.map((contender) => contender.nextLine()))
      expect(outcomes.filter((outcome) => outcome === 'acquired')).toHaveLength(1)
      for (const outcome of outcomes)
        expect(outcome).toMatch(/^acquired$|is in use by (?:another process|process \d+)/)
      expect(await readdir(directory)).toEqual(['baton.lock', 'baton.lock.db'])
      await Promise.all(contenders.map((contender) => contender.end()))
    }
  },
)

test('the lock of a killed process is taken over, repeatedly', async () => {
  const directory = createTemporaryDirectory()
  for (let round = 0; round < 3; round += 1) {
    const contenders = Array.from({ length: 3 }, () => new Contender(directory, 'die'))
    await Promise.all(contenders.map((contender) => contender.nextLine()))
    for (const contender of contenders) contender.go()
    const outcomes = await Promise.all(contenders.map((contender) => contender.nextLine()))
    // a process that starts after its predecessor has died also acquires the lock
    expect(outcomes).toContain('acquired')
    await Promise.all(contenders.map((contender) => contender.end()))
  }
}, 180_000)

/** Runs a command with its own process ids, as in a container. */
const NAMESPACE_COMMAND = ['unshare', '--pid', '--fork', '--mount-proc']
const hasNamespaces = spawnSync('unshare', [...NAMESPACE_COMMAND.slice(1), 'true']).status === 0

test.skipIf(!hasNamespaces)(
  'a process in another container acquires the lock only after its owner is killed',
  async () => {
    const directory = createTemporaryDirectory()
    const [first, second, third] = [1, 2, 3].map(
      () => new Contender(directory, 'wait', NAMESPACE_COMMAND),
    ) as [Contender, Contender, Contender]
    for (const contender of [first, second, third]) await contender.nextLine()
    first.go()
    expect(await first.nextLine()).toBe('acquired')
    second.go()
    expect(await second.nextLine()).toContain('is in use by process')
    await expect(startLocalServer({ dataDirectory: directory })).rejects.toThrow('is in use by process')
    await first.kill()
    third.go()
    expect(await third.nextLine()).toBe('acquired')
    await Promise.all([second.end(), third.end()])
  },
)

describe('a lock that has changed', () => {
  const SERVER_PROGRAM = fileURLToPath(new URL('programs/locked-server.ts', import.meta.url))
  const startLockedServer = async () => {
    const dataDirectory = createTemporaryDirectory()
    const child = spawn(
      process.execPath,
      [
        '--conditions=@batonsql/source',
        '--disable-warning=ExperimentalWarning',
        SERVER_PROGRAM,
        dataDirectory,
      ],
      { stdio: ['pipe', 'pipe', 'pipe'] },
    )
    const exited = once(child, 'exit')
    onTestFinished(async () => {
      child.kill('SIGKILL')
      await exited
    })
    const errors: string[] = []
    child.stderr.on('data', (text: Buffer) => errors.push(String(text)))
    const lines = readLines(child)
    const url = (await lines.next()).value as string
    return { dataDirectory, child, exited, lines, errors, url }
  }
  const sendRequest = async (url: string): Promise<number> => {
    const body = JSON.stringify({ requests: [{ type: 'execute', stmt: { sql: 'select 1' } }] })
    return (await fetch(`${url}/v3/pipeline`, { method: 'POST', body })).status
  }

  test('a file that was removed is recreated and locked, and the server continues', async () => {
    const { dataDirectory, child, url } = await startLockedServer()
    const lock = join(dataDirectory, 'baton.lock.db')
    await rm(lock)
    await expect.poll(() => existsSync(lock), { timeout: 60_000 }).toBe(true)
    await expect(startLocalServer({ dataDirectory })).rejects.toThrow(`in use by process ${child.pid}`)
    expect(await sendRequest(url)).toBe(200)
  })

  test.each(['embedded', 'sqld'] as const)(
    'if another server has taken the lock, this one ends without harm to its process: %s',
    async (backend) => {
      const dataDirectory = createTemporaryDirectory()
      const lost = Promise.withResolvers<Error>()
      const server = await startLocalServer({
        backend,
        dataDirectory,
        platform: {},
        auth: false,
        onLost: lost.resolve,
      })
      const { url, platform } = server
      expect(await sendRequest(url)).toBe(200)
      // replaced in one step, because the server recreates a missing file
      const otherFile = join(dataDirectory, 'other.db')
      await writeFile(otherFile, '')
      await rename(otherFile, join(dataDirectory, 'baton.lock.db'))
      const message = `another server is using the directory ${dataDirectory}`
      expect((await lost.promise).message).toContain(message)
      expect(await sendRequest(url)).toBe(503)
      expect((await fetch(`${platform?.url}/v1/organizations`)).status).toBe(503)
      await expect(server.createDatabase('late')).rejects.toThrow(message)
      const files = await readdir(dataDirectory, { recursive: true })
      await server.close()
      expect(await readdir(dataDirectory, { recursive: true })).toEqual(files)
    },
  )

  test.each(['embedded', 'sqld'] as const)(
    'if it is lost while the server starts, the start is rejected, and nothing is written: %s',
    async (backend) => {
      const { acquire } = DirectoryLock
      const loss = new Error('lost')
      vi.spyOn(DirectoryLock, 'acquire').mockImplementationOnce(async (directory, onLost) => {
        const lock = await acquire.call(DirectoryLock, directory, onLost)
        onLost?.(loss)
        return lock
      })
      const closings = [vi.spyOn(ControlPlane.prototype, 'stop'), vi.spyOn(ControlPlane.prototype, 'close')]
      const dataDirectory = createTemporaryDirectory()
      await expect(startLocalServer({ backend, dataDirectory })).rejects.toBe(loss)
      for (const closing of closings) expect(closing).not.toHaveBeenCalled()
    },
  )

  test('the command exits', async () => {
    const dataDirectory = createTemporaryDirectory()
    const { child } = await startDevServer(dataDirectory)
    const exited = once(child, 'exit')
    const otherFile = join(dataDirectory, 'other.db')
    await writeFile(otherFile, '')
    await rename(otherFile, join(dataDirectory, 'baton.lock.db'))
    expect(await exited).toEqual([1, null])
  })

  test('a process that releases its lock by reading the file keeps the directory', async () => {
    const { dataDirectory, child, lines, url } = await startLockedServer()
    child.stdin.write('read\n')
    expect((await lines.next()).value).toBe('read')
    await expect(startLocalServer({ dataDirectory })).rejects.toThrow(`in use by process ${child.pid}`)
    expect(await sendRequest(url)).toBe(200)
  })
})

test('a directory must be writable, and can be used by only one server at a time', async () => {
  const directory = createTemporaryDirectory()
  const dataDirectory = join(directory, 'deep', 'data')
  const server = await startLocalServer({ dataDirectory })
  await expect(startLocalServer({ dataDirectory })).rejects.toThrow(`in use by process ${process.pid}`)
  await server.close()
  await expect(server.createDatabase('late')).rejects.toThrow('the server is closed')
  await (await startLocalServer({ dataDirectory })).close()
  const file = join(directory, 'file')
  await writeFile(file, '')
  for (const path of [file, join(file, 'below'), '/dev/null/x', '/proc/nowhere/x'])
    await expect(startLocalServer({ dataDirectory: path })).rejects.toThrow(`${path} cannot be written`)
})
