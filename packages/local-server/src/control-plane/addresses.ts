import type { Registry } from './registry/registry.ts'
import type { DatabaseRow, OrganizationRow } from './registry/rows.ts'
import { hostLabel } from './rules/names.ts'

/**
 * Where databases are: those of the home organization by their name, all of them by `<database>-<organization>`. Names
 * have dashes in them, so nothing is split: a text is an address or it is none.
 */
export class Addresses {
  readonly #registry: Registry
  readonly #home: OrganizationRow
  readonly #domain: string | null

  /** `domain` is what follows the label in host names, with its port if it has one. */
  constructor(registry: Registry, home: OrganizationRow, domain: string | null) {
    this.#registry = registry
    this.#home = home
    this.#domain = domain
  }

  /** Whether databases have host names of their own. */
  get hasDomain(): boolean {
    return this.#domain !== null
  }

  /** The database at an address; also one that does not answer yet. */
  find(address: string): DatabaseRow | undefined {
    return this.#registry.findDatabase(this.#home.id, address) ?? this.#registry.findByLabel(address)
  }

  /** The label in front of the domain, of a host name that has both. */
  labelOfHost(host: string): string | null {
    const suffix = this.#domain === null ? null : `.${this.#domain.replace(/:\d+$/, '')}`
    return suffix !== null && host.endsWith(suffix) ? host.slice(0, -suffix.length) : null
  }

  /** Whether another database has one of the addresses that a new one would get. */
  isTaken(organization: OrganizationRow, name: string): boolean {
    const label = hostLabel(name, organization.slug)
    return (
      this.find(label) !== undefined || (organization.id === this.#home.id && this.find(name) !== undefined)
    )
  }

  /** The shortest address of a database, for paths. */
  pathOf(row: DatabaseRow): string {
    return row.organization === this.#home.id ? row.name : this.#labelOf(row)
  }

  /** What is pasted behind `http://`: a host of its own where there is a domain, else `origin/<path>`. */
  hostnameOf(row: DatabaseRow, origin: string): string {
    return this.#domain === null ? `${origin}/${this.pathOf(row)}` : `${this.#labelOf(row)}.${this.#domain}`
  }

  #labelOf(row: DatabaseRow): string {
    return hostLabel(row.name, this.#registry.organizations.get(row.organization)?.slug ?? '')
  }
}
