import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createClient } from '@batonsql/core'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { openRestartableServer } from '../../support/restartable-server.ts'
import { openTestServer } from '../../support/test-server.ts'
import { Connections } from './connections.ts'

// Platforms freeze functions between two calls. These tests simulate this by stopping and continuing a process.

const FOLDER = fileURLToPath(new URL('.', import.meta.url))
/** Longer than idle connections are kept open. */
const PAST_IDLE_TIMEOUT_MS = 4_200

const database = await (await openTestServer()).createDatabase()
const direct = createClient(database.config)
beforeAll(() => direct.execute('create table if not exists run (id text)'))
afterAll(() => direct.close())
let runCount = 0
const createRun = (): { readonly sql: string; countRows(): Promise<unknown> } => {
  const id = `run-${(runCount += 1)}`
  return {
    sql: `insert into run values ('${id}')`,
    async countRows() {
      const { rows } = await direct.execute('select count(*) from run where id = ?', [id], {
        rowMode: 'array',
      })
      return rows[0]?.[0]
    },
  }
}

type Program = ChildProcessByStdio<Writable, Readable, null>
interface Config {
  readonly url: string
  readonly authToken?: string | undefined
}
const startProgram = ({ url, authToken = '' }: Config, ...args: string[]): Program => {
  const { NODE_OPTIONS: _, ...env } = process.env
  return spawn(process.execPath, ['--conditions=@batonsql/source', '--no-warnings', ...args], {
    // where the packages can be resolved
    cwd: FOLDER,
    env: { ...env, DATABASE_URL: url, DATABASE_TOKEN: authToken },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
}

/** A process with a client that has run a statement, and therefore has a connection. */
class FunctionProcess implements AsyncDisposable {
  readonly #child: Program
  readonly #lines: AsyncIterator<string>

  private constructor(child: Program) {
    this.#child = child
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  }

  static async start(config: Config): Promise<FunctionProcess> {
    const functionProcess = new FunctionProcess(startProgram(config, 'function.ts'))
    expect(await functionProcess.call('select 1')).toEqual({ rows: [[1]], retries: 0 })
    return functionProcess
  }

  /** Sends a statement to the process. @param onRetry called for each retry @returns the outcome */
  async call(sql: string, onRetry?: () => void): Promise<unknown> {
    this.#child.stdin.write(`${sql}\n`)
    for (;;) {
      const { value, done } = await this.#lines.next()
      if (done) throw new Error('the function process exited')
      if (value !== 'retry') return JSON.parse(value)
      onRetry?.()
    }
  }

  freeze(): void {
    this.#child.kill('SIGSTOP')
  }

  /** Continues the process. @param sql a statement that is already pending by then @returns its outcome */
  async thaw(sql: string, onRetry?: () => void): Promise<unknown> {
    const response = this.call(sql, onRetry)
    this.#child.kill('SIGCONT')
    return await response
  }

  thawWithoutCall(): void {
    this.#child.kill('SIGCONT')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL')
    await once(this.#child, 'close')
  }
}

const openFunction = async () => {
  const connections = await Connections.open(database.url)
  const { authToken } = database.config
  return { connections, functionProcess: await FunctionProcess.start({ url: connections.url, authToken }) }
}
const READ_RESPONSE = { rows: [[2]], retries: 0 }
const WRITE_RESPONSE = { rows: [], retries: 0 }

describe.concurrent('a client that is frozen with an open connection', () => {
  test.each([
    ['closed by the server', 'closeAll'],
    ['reset', 'reset'],
  ] as const)('that was %s reads and writes on a new one', async (_, how) => {
    const { connections, functionProcess } = await openFunction()
    await using _connections = connections
    await using _frozen = functionProcess
    const run = createRun()
    for (const [sql, response] of [
      ['select 2', READ_RESPONSE],
      [run.sql, WRITE_RESPONSE],
    ] as const) {
      functionProcess.freeze()
      connections[how]()
      await pause(50)
      expect(await functionProcess.thaw(sql)).toEqual(response)
    }
    expect(await run.countRows()).toBe(1)
  })

  test('that a gateway has dropped does not reuse it after some time', async () => {
    const { connections, functionProcess } = await openFunction()
    await using _connections = connections
    await using _frozen = functionProcess
    const run = createRun()
    functionProcess.freeze()
    connections.dropSilently()
    await pause(PAST_IDLE_TIMEOUT_MS)
    expect(await functionProcess.thaw(run.sql)).toEqual(WRITE_RESPONSE)
    expect(await run.countRows()).toBe(1)
  })

  test('that is still open reuses it', async () => {
    const { connections, functionProcess } = await openFunction()
    await using _connections = connections
    await using _frozen = functionProcess
    functionProcess.freeze()
    await pause(50)
    expect(await functionProcess.thaw('select 2')).toEqual(READ_RESPONSE)
  })

  test('retries rejected requests until one is accepted, if its server restarts later', async () => {
    const { connections, functionProcess } = await openFunction()
    await using _connections = connections
    await using _frozen = functionProcess
    const run = createRun()
    functionProcess.freeze()
    const listen = connections.resetAndStopListening()
    let rejectedCount = 0
    const response = functionProcess.thaw(run.sql, () => {
      rejectedCount += 1
      if (rejectedCount === 1) void listen()
    })
    expect(await response).toEqual({ rows: [], retries: expect.toSatisfy((retries) => retries > 0) })
    expect(await run.countRows()).toBe(1)
  })

  test('reports the outcome not_applied, if its server does not restart', async () => {
    const { connections, functionProcess } = await openFunction()
    await using _connections = connections
    await using _frozen = functionProcess
    functionProcess.freeze()
    connections.resetAndStopListening()
    expect(await functionProcess.thaw(createRun().sql)).toEqual({
      code: 'NETWORK',
      outcome: 'not_applied',
      retries: 5,
    })
  })
})

describe.concurrent('a call whose process was frozen while the call was in flight, and whose connection was lost', () => {
  const breakWhileFrozen = async (sql: string): Promise<unknown> => {
    const { connections, functionProcess } = await openFunction()
    await using _connections = connections
    await using _frozen = functionProcess
    connections.dropsResponses = true
    const response = functionProcess.call(sql)
    while (!connections.hasDropped) await pause(5)
    functionProcess.freeze()
    connections.reset()
    connections.dropsResponses = false
    functionProcess.thawWithoutCall()
    return await response
  }

  test('a write may have been applied, and is not retried', async () => {
    const run = createRun()
    expect(await breakWhileFrozen(run.sql)).toEqual({ code: 'NETWORK', outcome: 'unknown', retries: 0 })
    expect(await run.countRows()).toBe(1)
  })

  test('a read is retried', async () => {
    const anyRetries = expect.toSatisfy((retries) => retries > 0)
    expect(await breakWhileFrozen('select 2')).toEqual({ rows: [[2]], retries: anyRetries })
  })
})

test('a frozen client continues after its server was restarted', async () => {
  const server = await openRestartableServer(inject('target'), 1 << 24)
  if (!server) return
  await using _server = server
  await using functionProcess = await FunctionProcess.start(server.config)
  await functionProcess.call('create table run (id text)')
  functionProcess.freeze()
  await server.restart()
  expect(await functionProcess.thaw("insert into run values ('once')")).toEqual(WRITE_RESPONSE)
  functionProcess.freeze()
  await server.restart()
  const result = await functionProcess.thaw('select count(*) from run')
  expect(result).toEqual({ rows: [[1]], retries: 0 })
})

describe('a program that does not close its client', () => {
  const OPEN_CLIENT = `import { createClient } from '@batonsql/core'
    const { DATABASE_URL: url, DATABASE_TOKEN: token } = process.env
    const db = createClient({ url, authToken: async () => token })`
  /** Runs a program until it exits. @returns its output */
  const runToEnd = async (code: string): Promise<string> => {
    const child = startProgram(database.config, '--input-type=module', '--eval', `${OPEN_CLIENT}; ${code}`)
    const closed = once(child, 'close')
    let output = ''
    for await (const part of child.stdout as AsyncIterable<Buffer>) output += part.toString()
    await closed
    return output
  }

  test.each([
    ['a statement', "await db.execute('select 1')"],
    ['a transaction', "await db.transaction((tx) => tx.execute('select 1'))"],
    ['a call that failed', "await db.execute('select nothing').catch(() => {})"],
    ['a close that waits', "await db.execute('select 1'); await db.close({ drainMs: 60_000 })"],
  ])('exits on its own after %s', async (_, work) => {
    // a connection is kept open for 4 s, but, like this timer, it does not keep the process alive
    const timer = "setTimeout(() => console.log('still there after 3 s'), 3_000).unref()"
    expect(await runToEnd(`${work}; console.log('done'); ${timer}`)).toBe('done\n')
  })

  test('does not exit before its work has finished', async () => {
    const run = createRun()
    await runToEnd(`void db.execute("${run.sql}")`)
    expect(await run.countRows()).toBe(1)
  })
})
