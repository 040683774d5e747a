import type { Registry } from './registry/registry.ts'
import type { DatabaseRow } from './registry/rows.ts'

/** Returns the locations of a database's replicas: those of its group, and its own. */
export function getReplicaLocations(
  { groups }: Registry,
  { group: id, replicas = [] }: Pick<DatabaseRow, 'group' | 'replicas'>,
): readonly string[] {
  const group = groups.get(id)
  if (group === undefined) return []
  return [...new Set([...group.locations, ...replicas])].filter((location) => location !== group.primary)
}

export function getGroupReplicaLocations(registry: Registry, group: string): readonly string[] {
  const rows = registry.databases.rows.filter((row) => row.group === group)
  const replicas = rows.flatMap((row) => row.replicas ?? [])
  return getReplicaLocations(registry, { group, replicas })
}
