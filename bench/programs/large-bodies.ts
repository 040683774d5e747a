// Measures how much memory clients that send the largest possible bodies at the same time make the local server take: its peak
// above the start, and what is left afterwards, in MB; for libsql-server, its process too.
// Run: npm run bench -- large-bodies [-- --clients 8,32 --backends embedded,sqld --bodies requests,text]
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pool } from 'undici'

const { values } = parseArgs({
  options: {
    clients: { type: 'string', default: '8,32' },
    backends: { type: 'string', default: 'embedded,sqld' },
    bodies: { type: 'string' },
    rounds: { type: 'string', default: '3' },
  },
})
const COMMAND = fileURLToPath(new URL('../../packages/cli/src/cli.ts', import.meta.url))
const MEGABYTE = 1_024 ** 2
/** Time after which an idle server has closed its databases. */
const IDLE_MS = 10_000

const repeat = (item: string, count: number): string => Array.from({ length: count }, () => item).join()
const inPipeline = (request: string): string => `{"requests":[${request},{"type":"close"}]}`
const execute = (fields: string): string => inPipeline(`{"type":"execute","stmt":{${fields}}}`)
const batch = (steps: string): string => inPipeline(`{"type":"batch","batch":{"steps":[${steps}]}}`)
const IS_AUTOCOMMIT = '{"type":"is_autocommit"}'

/** The bodies, each close to a limit. */
const BODIES: Readonly<Record<string, () => string>> = {
  requests: () => inPipeline(repeat('{"type":"get_autocommit"}', 240_000)),
  steps: () => batch(repeat('{"stmt":{"sql":"select 1"}}', 160_000)),
  args: () => execute(`"sql":"select 1","args":[${repeat('{"type":"null"}', 240_000)}]`),
  conditions: () =>
    batch(
      `{"stmt":{"sql":"select 1"},"condition":{"type":"and","conds":[${repeat(IS_AUTOCOMMIT, 240_000)}]}}`,
    ),
  text: () =>
    execute(`"sql":"select length(?)","args":[{"type":"text","value":"${'a'.repeat(60 * MEGABYTE)}"}]`),
  // two bytes in memory for each of its characters
  'non-latin text': () =>
    execute(`"sql":"select length(?)","args":[{"type":"text","value":"${'\u044f'.repeat(30 * MEGABYTE)}"}]`),
  sql: () => execute(`"sql":"select length('${'a'.repeat(60 * MEGABYTE)}')"`),
  rows: () => execute(`"sql":"select 1 from (values ${repeat("(1,'index')", 700_000)}) limit 1"`),
  refused: () => '['.repeat(63 * MEGABYTE),
}

/** Lets clients send a body at the same time, several times, and prints the memory of the server. */
async function measure(backend: string, name: string, clients: number): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'baton-bodies-'))
  // collects garbage on a signal, because an idle process does not
  const collector = "data:text/javascript,process.on('SIGUSR2',()=>gc())"
  const args = [
    '--expose-gc',
    '--import',
    collector,
    '--conditions=@batonsql/source',
    COMMAND,
    'dev',
    '--data',
    join(directory, 'data'),
    '--port',
    '0',
    '--no-inspector',
  ]
  const child = spawn(process.execPath, [...args, '--backend', backend], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const pid = child.pid as number
  try {
    const pool = new Pool(await readUrl(child.stdout), {
      connections: clients,
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    const send = async (body: Buffer | string): Promise<string> => {
      try {
        const response = await pool.request({ path: '/v3/pipeline', method: 'POST', body })
        await response.body.dump()
        return String(response.statusCode)
      } catch {
        return 'closed'
      }
    }
    await send(inPipeline('{"type":"get_autocommit"}'))
    const processes = [pid, ...readChildren(pid)]
    const before = processes.map((process) => readMegabytes(process, 'VmRSS'))
    for (const process of processes) writeFileSync(`/proc/${process}/clear_refs`, '5')
    const body = Buffer.from(BODIES[name]?.() ?? '')
    const statuses: Record<string, number> = {}
    for (let round = 0; round < Number(values.rounds); round += 1) {
      for (const status of await Promise.all(Array.from({ length: clients }, () => send(body))))
        statuses[status] = (statuses[status] ?? 0) + 1
    }
    const peak = processes.map((process, index) => readMegabytes(process, 'VmHWM') - (before[index] ?? 0))
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
    child.kill('SIGUSR2')
    await send(inPipeline('{"type":"get_autocommit"}'))
    const left = processes.map((process, index) => readMegabytes(process, 'VmRSS') - (before[index] ?? 0))
    const counts = Object.entries(statuses).map(([status, count]) => `${count} × ${status}`)
    console.log(
      `${backend}, ${clients} clients, ${name} (${Math.round(body.length / MEGABYTE)} MiB): peak +${peak.join(' and +')} MB, ` +
        `left +${left.join(' and +')} MB; ${counts.join(', ')}`,
    )
    await pool.destroy()
  } finally {
    child.kill('SIGINT')
    await once(child, 'exit')
    rmSync(directory, { recursive: true, force: true })
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

function readChildren(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return text === '' ? [] : text.split(' ').map(Number)
}

const readMegabytes = (pid: number, field: 'VmRSS' | 'VmHWM'): number => {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1]) / 1_024)
}

for (const backend of values.backends.split(','))
  for (const name of values.bodies?.split(',') ?? Object.keys(BODIES))
    for (const clients of values.clients.split(',')) await measure(backend, name, Number(clients))
