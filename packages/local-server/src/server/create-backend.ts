import type { EventEmitter } from 'node:events'
import { join } from 'node:path'
import type { DatabaseBackend, DatabaseId, RemoteSqldOptions } from '../backend/backend.ts'
import type { ControlPlane } from '../control-plane/control-plane.ts'
import type { DatabaseRow } from '../control-plane/registry/rows.ts'
import { EmbeddedBackend } from '../embedded/backend.ts'
import type { Dialect } from '../hrana/dialect.ts'
import { SqldBackend } from '../sqld/backend.ts'
import { SqldGroups } from '../sqld/groups.ts'

/** What happens to the server of a database. */
export type Notices = EventEmitter<{ notice: [id: DatabaseId, text: string] }>

/** Which back end holds the databases. */
export interface BackendChoice {
  readonly backend: 'embedded' | 'sqld'
  readonly dataDirectory: string | undefined
  readonly auth: boolean
  /** Of the back end `embedded`; null for libsql-server without what loses data. */
  readonly dialect: Dialect | null
  readonly sqldPath: string | undefined
  /** A libsql-server that runs already. */
  readonly sqld: RemoteSqldOptions | undefined
}

/** Makes the back end that the options name; it is not started. */
export function createBackend(
  { backend, auth, dialect, dataDirectory, sqldPath, sqld }: BackendChoice,
  directory: string,
  { controlKey, registry }: ControlPlane,
  notices: Notices,
): DatabaseBackend {
  const isOpen = !auth
  // databases are attached by name or id, and only those of the same group
  const idOf = (from: DatabaseId, name: string): DatabaseId | undefined => {
    const { databases } = registry
    const group = databases.get(from)?.group
    const isMeant = (row: DatabaseRow): boolean => row.name === name || row.id === name
    return databases.rows.find((row) => row.group === group && row.state === 'ready' && isMeant(row))?.id
  }
  if (backend === 'sqld') {
    const onNotice = (id: DatabaseId, text: string): void => void notices.emit('notice', id, text)
    const own = { directory: join(directory, 'sqld'), isOpen, controlKey, sqldPath, onNotice, idOf }
    // a server by URL is one for all groups
    if (sqld !== undefined) return new SqldBackend({ ...own, remote: sqld })
    return new SqldGroups({
      ...own,
      groupOf: (id) => registry.databases.get(id)?.group,
      hasGroup: (group) => registry.groups.get(group) !== undefined,
    })
  }
  const isKept = dataDirectory !== undefined
  return new EmbeddedBackend({ directory: join(directory, 'databases'), isKept, isOpen, dialect, idOf })
}
