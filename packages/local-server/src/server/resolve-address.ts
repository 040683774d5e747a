import type { ControlPlane } from '@batonsql/control-plane'
import { getClaimedDatabase, getHostName } from '@batonsql/server-common/auth'
import { isExportRoute, RESERVED_NAMES } from '@batonsql/server-common/backend'
import { errorResponse, type ServiceRequest, type ServiceResponse } from '@batonsql/server-common/http'

/** The database at the bare URL. */
export const DEFAULT_DATABASE = 'default'

interface AddressBook {
  readonly controlPlane: ControlPlane
  /** Maps host names to databases. */
  readonly domains: Readonly<Record<string, string>>
}

/**
 * Returns the name of the database that a request addresses, which need not exist, and the path relative to the database; or an error
 * response. The database is named by the first segment of the path, by the `x-namespace-bin` or `x-namespace` header, by a configured
 * domain, by the platform's domain or `<name>.localhost`, or by the token of an export. Otherwise it is `default`.
 */
export function resolveAddress(
  request: ServiceRequest,
  { controlPlane, domains }: AddressBook,
): { readonly name: string; readonly path: string } | ServiceResponse {
  const { path, headers } = request
  const segment = /^\/([^/]+)\/(.*)$/.exec(path)
  if (segment?.[1] !== undefined && !RESERVED_NAMES.has(segment[1])) {
    return { name: safeDecode(segment[1]), path: `/${segment[2]}` }
  }
  const namespace = readNamespaceHeader(headers)
  if (namespace !== null && typeof namespace === 'object') return namespace
  const name =
    namespace ?? findNameInHost(request, { controlPlane, domains }) ?? findNameInToken(request, controlPlane)
  return { name: name ?? DEFAULT_DATABASE, path }
}

function findNameInHost(request: ServiceRequest, { controlPlane, domains }: AddressBook): string | null {
  const host = getHostName(request) ?? ''
  if (Object.hasOwn(domains, host)) return domains[host] ?? null
  const label = controlPlane.addresses.getHostLabel(host)
  if (label !== null) return label
  return /^([^.]+)\.localhost$/.exec(host)?.[1] ?? null
}

/** Returns the database named in the token of an export request: the vendor's CLI exports from the bare host. */
function findNameInToken(request: ServiceRequest, { registry, addresses }: ControlPlane): string | null {
  if (!isExportRoute(request.path)) return null
  const id = getClaimedDatabase(request)
  const row = id === null ? undefined : registry.databases.get(id)
  return row === undefined ? null : addresses.getPath(row)
}

function safeDecode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** Returns the name in the header, or an error response if it is malformed. */
function readNamespaceHeader(headers: ServiceRequest['headers']): string | ServiceResponse | null {
  const binary = headers['x-namespace-bin']
  if (typeof binary === 'string') {
    const offset = binary.search(/[^A-Za-z0-9+/]/)
    if (offset < 0) return Buffer.from(binary, 'base64').toString('utf8')
    const text = `Invalid byte ${binary.charCodeAt(offset)}, offset ${offset}.`
    return errorResponse(400, `Invalid namespace bytes: \`${text}\``)
  }
  const name = headers['x-namespace']
  return typeof name === 'string' && name !== '' ? name : null
}
