import type { Attributes } from '@opentelemetry/api'
import { getVerb } from '../../sql/verb.ts'
import { summarize } from './query-summary.ts'

// Names from OpenTelemetry's semantic conventions for database clients (1.45).

/** Returns the attributes of all spans and measurements of a client. @throws TypeError for an invalid URL */
export function connectionAttributes(
  url: string | URL | undefined,
  namespace: string | undefined,
): Attributes {
  const database = {
    'db.system.name': 'sqlite',
    ...(namespace && { 'db.namespace': namespace }),
  }
  if (url === undefined) return database
  const text = String(url)
  // the schemes of a client
  if (!/^(?:libsql|turso|https?):\/\//i.test(text) || !URL.canParse(text))
    throw new TypeError('observeWithOpenTelemetry: url must be the URL of the client, such as libsql://…')
  const { protocol, hostname, port, searchParams } = new URL(text)
  const isPlain = protocol === 'http:' || (protocol !== 'https:' && searchParams.get('tls') === '0')
  const defaultPort = isPlain ? 80 : 443
  return {
    ...database,
    // an IPv6 address without its brackets
    'server.address': hostname.replaceAll(/[[\]]/g, ''),
    'server.port': port === '' ? defaultPort : Number(port),
  }
}

/**
 * Returns the operation, the summary and the table of a call. A statement may have several operations and tables: the operation is
 * its first word, and the table is omitted unless it is the only one.
 */
export function operationAttributes(sql: readonly string[]): Attributes {
  const operations = new Set(sql.map(getOperation))
  const summaries = sql.map(summarize)
  const texts = new Set(summaries.map(({ text }) => text))
  const tables = new Set(summaries.map(({ table }) => table))
  const [table] = tables
  const isBatch = sql.length > 1
  return {
    'db.operation.name': combineNames(operations, isBatch),
    'db.query.summary': combineNames(texts, isBatch),
    ...(tables.size === 1 && table && { 'db.collection.name': table }),
    ...(isBatch && { 'db.operation.batch.size': sql.length }),
  }
}

function combineNames(names: ReadonlySet<string>, isBatch: boolean): string {
  const [name = ''] = names
  if (!isBatch) return name
  return names.size === 1 ? `BATCH ${name}` : 'BATCH'
}

const getOperation = (sql: string): string => getVerb(sql).toUpperCase() || 'SQL'

/** Returns the attributes of an error: its own code, and the server's or the HTTP status. */
export function errorAttributes(error: unknown): Attributes {
  // the reason of a signal may be anything, even an object with a name
  if (!(error instanceof Error)) return { 'error.type': '_OTHER' }
  const { name, code, extendedCode, status } = error as Error & Record<string, unknown>
  const type = typeof code === 'string' ? code : name
  if (typeof status === 'number') return { 'error.type': type, 'db.response.status_code': String(status) }
  if (name !== 'SqlError') return { 'error.type': type }
  return { 'error.type': type, 'db.response.status_code': String(extendedCode ?? code) }
}
