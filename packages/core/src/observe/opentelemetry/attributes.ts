import type { Attributes } from '@opentelemetry/api'
import { verbOf } from '../../sql/verb.ts'

// Names of OpenTelemetry's semantic conventions for database clients (1.45).

/** Returns the attributes of all spans and measurements of a client. @throws TypeError for an invalid URL */
export function serverAttributes(url: string | URL | undefined): Attributes {
  const system = { 'db.system.name': 'sqlite' }
  if (url === undefined) return system
  const text = String(url)
  if (!/^(libsql|https?):\/\//i.test(text) || !URL.canParse(text))
    throw new TypeError(
      'observeWithOpenTelemetry: url must be that of the client: libsql://…, https://… or http://…',
    )
  const { protocol, hostname, port, searchParams } = new URL(text)
  const isPlain = protocol === 'http:' || searchParams.get('tls') === '0'
  const usual = isPlain ? 80 : 443
  return { ...system, 'server.address': hostname, 'server.port': port === '' ? usual : Number(port) }
}

/** Returns the name of the operation, with `BATCH` in front for several statements. */
export function operationAttributes(sql: readonly string[]): Attributes {
  const [first = '', ...others] = sql.map(operationOf)
  if (sql.length === 1) return { 'db.operation.name': first }
  const isOneKind = others.every((name) => name === first)
  return {
    'db.operation.name': isOneKind ? `BATCH ${first}` : 'BATCH',
    'db.operation.batch.size': sql.length,
  }
}

const operationOf = (sql: string): string => verbOf(sql).toUpperCase() || 'SQL'

/** Returns the type of an error: its code, and the server's. */
export function errorAttributes(error: unknown): Attributes {
  const { name, code, extendedCode, status } = Object(error) as Record<string, unknown>
  const type = typeof code === 'string' ? code : typeof name === 'string' ? name : '_OTHER'
  if (typeof status === 'number') return { 'error.type': type, 'db.response.status_code': String(status) }
  if (name !== 'SqlError') return { 'error.type': type }
  return { 'error.type': type, 'db.response.status_code': String(extendedCode ?? code) }
}
