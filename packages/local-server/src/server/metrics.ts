import type { ControlPlane } from '@batonsql/control-plane'
import type { DatabaseId } from '@batonsql/server-common/backend'

/** Counts requests to a database since the server started. */
export interface RequestCount {
  requests: number
  /** Responses with status 500 or above. */
  failed: number
  /** Total time until their responses began. */
  seconds: number
}

/** Returns Prometheus metrics: requests and usage of each database, and resources of the process. */
export function formatMetrics(
  { registry, addresses, usage, backend }: ControlPlane,
  counts: ReadonlyMap<DatabaseId, RequestCount>,
  version: string,
): string {
  const { rows } = registry.databases
  const ids = rows.map(({ id }) => id)
  const usages = usage.getDatabaseUsages(ids, { from: 0, to: Date.now() })
  const databases = rows.map((row) => {
    const { requests = 0, failed = 0, seconds = 0 } = counts.get(row.id) ?? {}
    const label = formatLabels({
      database: addresses.getPath(row),
      group: registry.groups.get(row.group)?.name ?? '',
    })
    const { rowsRead = 0, rowsWritten = 0, storageBytes = 0 } = usages.get(row.id) ?? {}
    return { label, requests, failed, seconds, rowsRead, rowsWritten, storageBytes }
  })
  const perDatabase = (
    name: string,
    type: 'counter' | 'gauge',
    help: string,
    getValue: (database: (typeof databases)[number]) => number,
  ): string =>
    formatMetric(
      name,
      type,
      help,
      databases.map((database) => `${database.label} ${getValue(database)}`),
    )
  const { user, system } = process.cpuUsage()
  return [
    formatMetric('baton_info', 'gauge', 'The server.', [
      `${formatLabels({ version, backend: backend.kind })} 1`,
    ]),
    perDatabase('baton_requests_total', 'counter', 'Requests to the database.', ({ requests }) => requests),
    perDatabase(
      'baton_requests_failed_total',
      'counter',
      'Responses with status 500 or above.',
      ({ failed }) => failed,
    ),
    perDatabase(
      'baton_request_seconds_total',
      'counter',
      'Total time until responses began.',
      ({ seconds }) => seconds,
    ),
    perDatabase(
      'baton_rows_read_total',
      'counter',
      'Rows read, as reported by usage.',
      ({ rowsRead }) => rowsRead,
    ),
    perDatabase('baton_rows_written_total', 'counter', 'Rows written.', ({ rowsWritten }) => rowsWritten),
    perDatabase('baton_storage_bytes', 'gauge', 'Size of the database.', ({ storageBytes }) => storageBytes),
    formatMetric('process_cpu_seconds_total', 'counter', 'CPU time of the process.', [
      ` ${(user + system) / 1e6}`,
    ]),
    formatMetric('process_resident_memory_bytes', 'gauge', 'Memory of the process.', [
      ` ${process.memoryUsage.rss()}`,
    ]),
    formatMetric('process_start_time_seconds', 'gauge', 'Start time of the process since the Unix epoch.', [
      ` ${(performance.timeOrigin / 1_000).toFixed(3)}`,
    ]),
  ].join('')
}

const formatMetric = (name: string, type: string, help: string, values: readonly string[]): string =>
  `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${values.map((value) => `${name}${value}\n`).join('')}`

const formatLabels = (values: Readonly<Record<string, string>>): string =>
  `{${Object.entries(values)
    .map(
      ([name, value]) =>
        `${name}="${value.replace(/["\\\n]/g, (character) => (character === '\n' ? '\\n' : `\\${character}`))}"`,
    )
    .join()}}`
