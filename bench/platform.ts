// Creates, lists and queries a thousand databases with the platform API, deletes half of them, and restarts the server with the
// rest, on each back end, in separate processes. `--write-docs` writes the figures to docs/performance/hosting.md. `--backend` measures
// one of them and prints the figures as JSON. Run: npm run bench:platform [-- --databases N --backend sqld --write-docs]
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { createPlatformClient, databaseUrl } from '@batonsql/platform'

const { values } = parseArgs({
  options: {
    databases: { type: 'string', default: '1000' },
    backend: { type: 'string' },
    'write-docs': { type: 'boolean', default: false },
  },
})
const BACKENDS = ['embedded', 'sqld'] as const
type Backend = (typeof BACKENDS)[number]
const names = Array.from({ length: Number(values.databases) }, (_, index) => `tenant-${index}`)
const CONCURRENCY = 8
const MEGABYTE = 1_024 ** 2
const PAGE = new URL('../docs/performance/hosting.md', import.meta.url)
const MARKERS = ['<!-- bench:platform -->', '<!-- end of bench:platform -->'] as const

/** The cost of one kind of call. */
interface Figure {
  readonly step: string
  readonly seconds: number
  /** Number of calls; 1 for a step that runs once. */
  readonly calls: number
  /** Resident memory afterwards, in MB, of the server process and of libsql-server, if there is one. */
  readonly megabytes: number
  readonly sqldMegabytes: number | null
}

interface Report {
  readonly backend: Backend
  readonly version: string
  readonly figures: readonly Figure[]
}

/** Runs all steps on one server, in order. */
class Benchmark {
  readonly #backend: Backend
  readonly #directory: string
  readonly #figures: Figure[] = []

  constructor(backend: Backend, directory: string) {
    this.#backend = backend
    this.#directory = directory
  }

  async run(): Promise<Report> {
    const server = await this.#start()
    const platform = createClientFor(server)
    await this.#measureEach('create', (name) => platform.databases.create({ name, group: 'default' }))
    const limit = names.length + 1
    await this.#measure('list all, 100 per page', () => platform.databases.list().toArray({ limit }))
    const token = String(await platform.groups.createToken('default'))
    const query = async (name: string): Promise<void> => {
      const { hostname } = await platform.databases.get(name)
      const client = createClient({ url: databaseUrl(hostname), authToken: token })
      await client.execute('select 1')
      await client.close()
    }
    await this.#measureEach('first query', query)
    await this.#measureEach('second query', query)
    const firstHalf = names.slice(0, names.length / 2)
    await this.#measureEach('delete half', (name) => platform.databases.delete(name), firstHalf)
    await server.close()
    let restarted = server
    await this.#measure('restart with the rest', async () => {
      restarted = await this.#start()
    })
    const { version } = restarted
    await restarted.close()
    return { backend: this.#backend, version, figures: this.#figures }
  }

  #start(): ReturnType<typeof startLocalServer> {
    return startLocalServer({ backend: this.#backend, dataDirectory: this.#directory, platform: {} })
  }

  async #measure(step: string, work: () => Promise<unknown>): Promise<void> {
    await this.#measureEach(step, work, [''])
  }

  async #measureEach(
    step: string,
    work: (name: string) => PromiseLike<unknown>,
    targets: readonly string[] = names,
  ): Promise<void> {
    const startedAt = performance.now()
    const remaining = [...targets].reverse()
    const worker = async (): Promise<void> => {
      for (let name = remaining.pop(); name !== undefined; name = remaining.pop()) await work(name)
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, worker))
    const seconds = (performance.now() - startedAt) / 1_000
    const megabytes = Math.round(process.memoryUsage().rss / MEGABYTE)
    const figure = {
      step,
      seconds,
      calls: targets.length,
      megabytes,
      sqldMegabytes: await this.#sqldMegabytes(),
    }
    this.#figures.push(figure)
    console.error(`${this.#backend.padEnd(8)} ${step.padEnd(20)} ${formatFigure(figure)}`)
  }

  /** Memory of the processes of all groups; null if there are none, or if it cannot be measured. */
  async #sqldMegabytes(): Promise<number | null> {
    if (this.#backend !== 'sqld') return null
    try {
      let kilobytes = 0
      for (const group of await readdir(join(this.#directory, 'sqld'))) {
        const file = join(this.#directory, 'sqld', group, 'sqld.pid')
        const { pid } = JSON.parse(await readFile(file, 'utf8')) as { pid: number }
        kilobytes += Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1])
      }
      return Math.round(kilobytes / 1_024)
    } catch {
      return null
    }
  }
}

function createClientFor({ platform }: Awaited<ReturnType<typeof startLocalServer>>) {
  if (platform === null) throw new Error('the server has no platform API')
  const { url, token, organization } = platform
  return createPlatformClient({ url, token, organization })
}

function formatFigure({ seconds, calls, megabytes, sqldMegabytes }: Figure): string {
  const speed = calls > 1 ? `${Math.round(calls / seconds)}/s` : `${Math.round(seconds * 1_000)} ms`
  return `${speed}, ${megabytes} MB${sqldMegabytes === null ? '' : ` + ${sqldMegabytes} MB`}`
}

/** Runs one back end in its own process, so that its memory is measured separately. */
function runBackend(backend: Backend): Report {
  const flags = ['--conditions=@batonsql/source', '--disable-warning=ExperimentalWarning']
  const options = ['--backend', backend, '--databases', values.databases]
  const child = spawnSync(process.execPath, [...flags, fileURLToPath(import.meta.url), ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  })
  if (child.status !== 0) throw new Error(`the benchmark of ${backend} exited with ${child.status}`)
  return JSON.parse(child.stdout) as Report
}

function table(reports: readonly Report[]): string {
  const [first] = reports
  const rows = (first?.figures ?? []).map(({ step }, index) => {
    const cells = reports.map(({ figures }) =>
      figures[index] === undefined ? '' : formatFigure(figures[index]),
    )
    return `| ${[step, ...cells].join(' | ')} |`
  })
  const heading = `${names.length} databases, ${CONCURRENCY} calls at a time, on ${cpus().length} cores shared with other work`
  return [
    `${heading}: ${reports.map(({ version }) => version).join(', and ')}.`,
    'Memory is that of the server process, plus that of libsql-server.',
    '',
    `| | ${reports.map(({ backend }) => backend).join(' | ')} |`,
    `|---|${reports.map(() => '---|').join('')}`,
    ...rows,
  ].join('\n')
}

if (values.backend !== undefined) {
  const backend = BACKENDS.find((name) => name === values.backend)
  if (backend === undefined) throw new TypeError(`--backend must be one of ${BACKENDS.join(', ')}`)
  const directory = await mkdtemp(join(tmpdir(), 'baton-bench-'))
  try {
    console.log(JSON.stringify(await new Benchmark(backend, directory).run()))
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
} else {
  const text = table(BACKENDS.map(runBackend))
  console.log(text)
  if (values['write-docs']) {
    const page = readFileSync(PAGE, 'utf8')
    const [start, end] = [page.indexOf(MARKERS[0]) + MARKERS[0].length, page.indexOf(MARKERS[1])]
    writeFileSync(PAGE, `${page.slice(0, start)}\n${text}\n${page.slice(end)}`)
  }
}
