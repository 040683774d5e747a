import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { CountingProxy } from '../support/counting-proxy.ts'
import { openRestartableServer } from '../support/restartable-server.ts'
import { stablePort } from '../support/stable-port.ts'
import { bundleForEdge, EDGE_CONDITIONS, type EdgeServer, serveWorker } from './edge.ts'
import { cleanEnvironment, copyExample, ROOT, run } from './run.ts'
import { type RuntimeTests, WORKERD_NAME } from './runtimes.ts'
import { serve } from './served.ts'

// Tests the examples of cloud functions as deployed: bundled, and called by the runtimes of their platforms.

const SIZE_LIMIT_BYTES = 1 << 24
const CREATE_GUESTS = 'create table guest (id integer primary key, name text not null unique)'
const CREATE_VISITS = 'create table visit (id integer primary key, method text not null)'

async function openDatabase() {
  const server = await openRestartableServer('embedded', SIZE_LIMIT_BYTES)
  if (!server) throw new Error('the embedded server is missing')
  const db = createClient(server.config)
  await db.batch([CREATE_GUESTS, CREATE_VISITS])
  return { server, db, [Symbol.asyncDispose]: () => db.close().then(() => server[Symbol.asyncDispose]()) }
}

export function testFunctions({ project, commandOf }: RuntimeTests): void {
  describe('examples/cloudflare-worker-drizzle', () => {
    const folder = join(project, 'cloudflare-worker-drizzle')
    beforeAll(() => void copyExample('cloudflare-worker-drizzle', project))
    let cookie = ''
    const sendRequest = async (worker: EdgeServer, name?: string): Promise<unknown> => {
      const init = name === undefined ? {} : { method: 'POST', body: JSON.stringify({ name }) }
      const response = await worker.fetch('/', { ...init, headers: { cookie } })
      cookie = response.headers.get('set-cookie') ?? cookie
      return [response.status, await response.json()]
    }

    test('responds, and records each visit after sending the response', async (context) => {
      const [entry = ''] = commandOf(WORKERD_NAME, context)
      const bundle = await bundleForEdge(folder, 'worker.ts', EDGE_CONDITIONS.workerd)
      expect(bundle.imports).toEqual([])
      await using database = await openDatabase()
      const { url, authToken = '' } = database.server.config
      const proxy = await CountingProxy.start(url)
      onTestFinished(() => proxy.close())
      proxy.bodies = []
      const bindings = { DATABASE_URL: proxy.url, DATABASE_TOKEN: authToken }
      await using worker = await serveWorker(entry, bundle, bindings)
      expect(await sendRequest(worker, 'Ada')).toEqual([201, { id: 1, name: 'Ada' }])
      const [, index] = /^replication-index=([1-9]\d*);/.exec(cookie) ?? []
      proxy.bodies.length = 0
      expect(await sendRequest(worker, 'Ada')).toEqual([409, { error: 'that name is taken' }])
      expect(await sendRequest(worker)).toEqual([200, [{ id: 1, name: 'Ada' }]])
      const read = proxy.bodies.find((body) => body.includes('select'))
      expect(read).toContain(`"replication_index":"${index}"`)
      const selectVisits = async (): Promise<unknown> =>
        (
          await database.db.execute('select method from visit order by id', [], { rowMode: 'array' })
        ).rows.flat()
      await expect.poll(selectVisits).toEqual(['POST', 'POST', 'GET'])
    })

    test('runs with `wrangler dev` after its migrations are applied', async (context) => {
      const [bin = ''] = commandOf(WORKERD_NAME, context)
      await using server = await startLocalServer()
      const migrate = (): Promise<string> =>
        run(['node', 'migrate.ts'], { cwd: folder, env: { DATABASE_URL: server.url } })
      expect(await migrate()).toBe('applied 0000_guests\n')
      expect(await migrate()).toBe('nothing to do\n')
      writeFileSync(join(folder, '.dev.vars'), `DATABASE_URL=${server.url}\nDATABASE_TOKEN=\n`)
      // otherwise, miniflare would fetch this from Cloudflare
      mkdirSync(join(folder, 'node_modules/.mf'), { recursive: true })
      writeFileSync(join(folder, 'node_modules/.mf/cf.json'), '{}')
      const temporaryFolder = join(folder, 'temporary')
      mkdirSync(temporaryFolder)
      // TMPDIR: where wrangler records when it last checked for a newer version
      const env = { WRANGLER_SEND_METRICS: 'false', WRANGLER_LOG_PATH: folder, TMPDIR: temporaryFolder }
      const command = [
        join(bin, 'wrangler'),
        'dev',
        '--ip',
        '127.0.0.1',
        '--port',
        String(await stablePort()),
      ]
      const worker = await serve(command, { cwd: folder, env }, /Ready on (\S+)/)
      onTestFinished(async () => void (await worker.interrupt()))
      const post = await fetch(worker.url, { method: 'POST', body: JSON.stringify({ name: 'Ada' }) })
      expect([post.status, await post.json()]).toEqual([201, { id: 1, name: 'Ada' }])
      const list = await fetch(worker.url)
      expect([list.status, await list.json()]).toEqual([200, [{ id: 1, name: 'Ada' }]])
    })
  })

  describe('examples/aws-lambda-kysely', () => {
    test('runs from a single bundled file, and works after being frozen between two calls', async () => {
      const folder = copyExample('aws-lambda-kysely', project)
      const { scripts } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
        scripts: { build: string }
      }
      await run([join(ROOT, 'node_modules/.bin/esbuild'), ...scripts.build.split(' ').slice(1)], {
        cwd: folder,
      })
      // outside the folders with installed packages
      const deployFolder = join(project, '../lambda')
      mkdirSync(deployFolder)
      cpSync(join(folder, 'dist/handler.mjs'), join(deployFolder, 'handler.mjs'))
      await using database = await openDatabase()
      await using lambda = new Lambda(deployFolder, database.server.config)
      expect(await lambda.call('POST', { name: 'Ada' })).toEqual([201, { id: 1, name: 'Ada' }])
      lambda.freeze()
      await database.server.restart()
      const secondCall = lambda.call('POST', { name: 'Grace' })
      lambda.thaw()
      expect(await secondCall).toEqual([201, { id: 2, name: 'Grace' }])
      expect(await lambda.call('POST', { name: 'Grace' })).toEqual([409, { error: 'that name is taken' }])
      expect(await lambda.call('GET')).toEqual([
        200,
        [
          { id: 1, name: 'Ada' },
          { id: 2, name: 'Grace' },
        ],
      ])
    })
  })
}

/** A process that calls a handler for each event that it receives, like the AWS Lambda runtime. */
class Lambda implements AsyncDisposable {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>
  readonly #responses: AsyncIterator<string>

  constructor(folder: string, { url, authToken = '' }: { url: string; authToken?: string | undefined }) {
    const handler = pathToFileURL(join(folder, 'handler.mjs')).href
    writeFileSync(
      join(folder, 'runtime.mjs'),
      `import { createInterface } from 'node:readline'
      import { handler } from '${handler}'
      for await (const event of createInterface({ input: process.stdin }))
        console.log(JSON.stringify(await handler(JSON.parse(event))))`,
    )
    this.#child = spawn(process.execPath, ['runtime.mjs'], {
      cwd: folder,
      env: cleanEnvironment({ DATABASE_URL: url, DATABASE_TOKEN: authToken }),
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#responses = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  /** @returns status and body of the response */
  async call(method: string, body?: object): Promise<unknown> {
    const event = { requestContext: { http: { method } }, ...(body && { body: JSON.stringify(body) }) }
    this.#child.stdin.write(`${JSON.stringify(event)}\n`)
    const { value, done } = await this.#responses.next()
    if (done) throw new Error('the function process exited')
    const reply = JSON.parse(value) as { statusCode: number; body: string }
    return [reply.statusCode, JSON.parse(reply.body)]
  }

  freeze(): void {
    this.#child.kill('SIGSTOP')
  }

  thaw(): void {
    this.#child.kill('SIGCONT')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL')
    await once(this.#child, 'close')
  }
}
