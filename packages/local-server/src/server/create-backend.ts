import { join } from 'node:path'
import {
  type ControlPlane,
  type DatabaseRow,
  getGroupReplicaLocations,
  isAddressAllowed,
} from '@batonsql/control-plane'
import type { ReachableDatabases } from '@batonsql/server-common/auth'
import type { DatabaseBackend, DatabaseId, ReplicaConditions } from '@batonsql/server-common/backend'
import { EmbeddedBackend } from '../embedded/backend.ts'
import { type LocalServerOptions, takesTokens } from './server-options.ts'

/** Parts of a server that its back end depends on. */
interface BackendParts {
  readonly directory: string
  readonly isDurable: boolean
  readonly controlPlane: ControlPlane
  /** Conditions of the replicas that the back end sqld starts. */
  readonly conditions: ReplicaConditions
  /** Called with notices about the server process of a database. */
  readonly onNotice: (id: DatabaseId, text: string) => void
}

/** Creates the back end selected by the options, without starting it. */
export async function createBackend(
  options: Omit<LocalServerOptions, 'log'>,
  { directory, isDurable, controlPlane: { controlKey, registry }, conditions, onNotice }: BackendParts,
): Promise<DatabaseBackend> {
  const { backend, dialect = null, sqldPath, sqld } = options
  const isOpen = !takesTokens(options)
  const { databases } = registry
  // ATTACH accepts names and ids, within the same group
  const resolveName = (from: DatabaseId, name: string): DatabaseId | undefined => {
    const group = databases.get(from)?.group
    const matches = (row: DatabaseRow): boolean => row.name === name || row.id === name
    return databases.rows.find((row) => row.group === group && row.state === 'ready' && matches(row))?.id
  }
  // `allowed_ips` also applies to ATTACH
  const reachable: ReachableDatabases = (from, attach, address) => {
    const group = databases.get(from)?.group
    const deniedDatabases = databases.rows.filter(
      (row) => row.group === group && !isAddressAllowed(row.configuration.allowedIps, address),
    )
    if (deniedDatabases.length === 0) return attach
    const ids = attach === 'all' ? databases.rows.map(({ id }): string => id) : attach
    return ids.filter((id) => !deniedDatabases.some((row) => row.id === id))
  }
  if (backend === 'sqld') {
    const commonOptions = {
      directory: join(directory, 'sqld'),
      isOpen,
      controlKey,
      sqldPath,
      onNotice,
      resolveName,
      reachable,
      conditions,
    }
    const { SqldBackend, SqldGroups } = await import('@batonsql/sqld-gateway')
    // one server, given by URL, holds the databases of all groups
    if (sqld !== undefined) return new SqldBackend({ ...commonOptions, remote: sqld })
    return new SqldGroups({
      ...commonOptions,
      findGroup: (id) => registry.databases.get(id)?.group,
      hasGroup: (group) => registry.groups.get(group) !== undefined,
      getReplicaLocations: (group) => getGroupReplicaLocations(registry, group),
    })
  }
  return new EmbeddedBackend({
    directory: join(directory, 'databases'),
    isDurable,
    isOpen,
    dialect,
    resolveName,
    reachable,
  })
}
