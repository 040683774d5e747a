import type { Registry } from './registry/registry.ts'
import type { DatabaseRow, OrganizationRow } from './registry/rows.ts'
import { getReplicaLocations } from './replica-locations.ts'
import { buildHostLabel } from './rules/names.ts'

/** Separates the location from the rest of a replica's address. Neither locations nor names contain it. */
const REPLICA_SEPARATOR = '_'

export interface ResolvedAddress {
  readonly row: DatabaseRow
  /** Location of the replica at the address; null for the primary. */
  readonly location: string | null
}

/**
 * Resolves the addresses of databases: a name in the operator's organization, or `<database>-<organization>` in any organization.
 * Names may contain dashes, so addresses are compared as a whole, and never split at dashes. With the prefix `<location>_`, an
 * address refers to a replica.
 */
export class Addresses {
  readonly #registry: Registry
  readonly #operatorOrganization: OrganizationRow
  readonly #domain: string | null

  /** @param domain suffix of host names, including its port, if any */
  constructor(registry: Registry, operatorOrganization: OrganizationRow, domain: string | null) {
    this.#registry = registry
    this.#operatorOrganization = operatorOrganization
    this.#domain = domain
  }

  /** Whether databases have host names. */
  get hasDomain(): boolean {
    return this.#domain !== null
  }

  /** Returns the database at an address, even if it is not ready. */
  find(address: string): DatabaseRow | undefined {
    return (
      this.#registry.findDatabase(this.#operatorOrganization.id, address) ??
      this.#registry.findByLabel(address)
    )
  }

  /** Returns the database whose primary or replica is at an address, even if it is not ready. */
  resolve(address: string): ResolvedAddress | undefined {
    const separator = address.indexOf(REPLICA_SEPARATOR)
    const row = this.find(address.slice(separator + 1))
    if (row === undefined) return undefined
    if (separator < 0) return { row, location: null }
    const location = address.slice(0, separator)
    return getReplicaLocations(this.#registry, row).includes(location) ? { row, location } : undefined
  }

  /** Returns the part of a host name, without port and in lower case, before the domain; null for one outside of the domain. */
  getHostLabel(host: string): string | null {
    const suffix = this.#domain === null ? null : `.${this.#domain.replace(/:\d+$/, '')}`
    return suffix !== null && host.endsWith(suffix) ? host.slice(0, -suffix.length) : null
  }

  /** Whether an address of a new database is already taken. */
  isTaken(organization: OrganizationRow, name: string): boolean {
    const label = buildHostLabel(name, organization.slug)
    return (
      this.find(label) !== undefined ||
      (organization.id === this.#operatorOrganization.id && this.find(name) !== undefined)
    )
  }

  /**
   * Returns the shortest address of a database, for paths.
   * @param location location of a replica; null for the primary
   */
  getPath(row: DatabaseRow, location: string | null = null): string {
    return (
      replicaPrefix(location) +
      (row.organization === this.#operatorOrganization.id ? row.name : this.#getLabel(row))
    )
  }

  /**
   * Returns the part of a URL after `http://`: a host name if there is a domain, otherwise `origin/<path>`.
   * @param origin host and port of this server
   * @param location location of a replica; null for the primary
   */
  getHostname(row: DatabaseRow, origin: string, location: string | null): string {
    return this.#domain === null
      ? `${origin}/${this.getPath(row, location)}`
      : `${replicaPrefix(location)}${this.#getLabel(row)}.${this.#domain}`
  }

  #getLabel(row: DatabaseRow): string {
    return buildHostLabel(row.name, this.#registry.organizations.get(row.organization)?.slug ?? '')
  }
}

function replicaPrefix(location: string | null): string {
  return location === null ? '' : location + REPLICA_SEPARATOR
}
