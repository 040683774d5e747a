import type { EventEmitter } from 'node:events'
import { join } from 'node:path'
import {
  type ControlPlane,
  type DatabaseRow,
  getGroupReplicaLocations,
  isAddressAllowed,
} from '@batonsql/control-plane'
import type { ReachableDatabases } from '@batonsql/server-common/auth'
import type {
  DatabaseBackend,
  DatabaseId,
  RemoteSqldOptions,
  ReplicaConditions,
} from '@batonsql/server-common/backend'
import type { Dialect } from '@batonsql/server-common/hrana'
import { EmbeddedBackend } from '../embedded/backend.ts'

/** Emits notices about the server process of a database. */
export type Notices = EventEmitter<{ notice: [id: DatabaseId, text: string] }>

/** Options that select and configure the back end. */
export interface BackendSelection {
  readonly backend: 'embedded' | 'sqld'
  readonly dataDirectory: string | undefined
  readonly auth: boolean
  /** Only with the back end `embedded`; null to imitate libsql-server, except that no statement is silently dropped. */
  readonly dialect: Dialect | null
  readonly sqldPath: string | undefined
  /** A libsql-server that is already running. */
  readonly sqld: RemoteSqldOptions | undefined
  /** Conditions of the replicas that the back end sqld starts. */
  readonly conditions: ReplicaConditions
}

/** Creates the back end selected by the options, without starting it. */
export async function createBackend(
  { backend, auth, dialect, dataDirectory, sqldPath, sqld, conditions }: BackendSelection,
  directory: string,
  { controlKey, registry }: ControlPlane,
  notices: Notices,
): Promise<DatabaseBackend> {
  const isOpen = !auth
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
    const onNotice = (id: DatabaseId, text: string): void => void notices.emit('notice', id, text)
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
  const isDurable = dataDirectory !== undefined
  return new EmbeddedBackend({
    directory: join(directory, 'databases'),
    isDurable,
    isOpen,
    dialect,
    resolveName,
    reachable,
  })
}
