import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import type { AuditAuthor, AuditEntry } from '../audit-log.ts'
import type { ControlPlane } from '../control-plane.ts'
import type { DatabaseRow, GroupRow, OrganizationRow, Role } from '../registry/rows.ts'
import { shorten } from '../rules/names.ts'
import type { Caller } from '../tokens/api-tokens.ts'
import type { Grant } from './access.ts'
import type { DumpStore } from './dump-store.ts'

export interface Platform {
  readonly plane: ControlPlane
  readonly dumps: DumpStore
  /** Host and port of the databases, such as `127.0.0.1:8080`. */
  readonly databaseOrigin: () => string
  readonly url: () => string
  /** How long a new database takes to become ready, in ms. */
  readonly readyDelayMs: number
  /** Status of the response if a name is already taken: 409 according to the documentation, 400 in practice. */
  readonly takenNameStatus: 400 | 409
  /** Version of libsql-server, such as `v0.24.32`. */
  readonly version: string
}

/** A parsed request; all strings in it are untrusted. */
export interface ParsedRequest {
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** JSON body with keys in lower case, as the service reads it; `{}` for an empty body. */
  readonly body: Readonly<Record<string, unknown>>
  readonly userAgent: string
  readonly raw: Request
}

/** An authorized request to a route. */
export class Call {
  readonly platform: Platform
  readonly request: ParsedRequest
  readonly #grant: Grant | null

  /** @param grant null on public routes */
  constructor(platform: Platform, request: ParsedRequest, grant: Grant | null) {
    this.platform = platform
    this.request = request
    this.#grant = grant
  }

  get plane(): ControlPlane {
    return this.platform.plane
  }

  get caller(): Caller {
    return this.#requiredGrant.caller
  }

  /** The organization of the route. @throws Error for a route without one, which is a mistake in the table of routes */
  get organization(): OrganizationRow {
    const { organization } = this.#requiredGrant
    if (organization === null) throw new Error('the route has no organization')
    return organization
  }

  /** The caller's role in the organization. @throws Error for a route without one, as `organization` does */
  get role(): Role {
    const { role } = this.#requiredGrant
    if (role === null) throw new Error('the route has no organization')
    return role
  }

  /** Id of the only group that the caller's token can access; null for all. */
  get onlyGroup(): string | null {
    return this.#requiredGrant.group
  }

  param(name: string): string {
    const value = this.request.params[name]
    if (value === undefined) throw new Error(`the path has no :${name}`)
    return value
  }

  query(name: string): string | undefined {
    return this.request.query.get(name) ?? undefined
  }

  /** Validates the body. @throws v.ValiError */
  body<Schema extends v.GenericSchema>(schema: Schema): v.InferOutput<Schema> {
    return v.parse(schema, this.request.body)
  }

  /** Returns the database named in the path, by its name or id, if the caller's token can access it. @throws ApiError 404 */
  database(): DatabaseRow {
    const { databaseId: id } = this.request.params
    if (id === undefined) return this.databaseByName(this.param('databaseName'))
    const row = this.databases().find((database) => database.id === id)
    if (row === undefined)
      throw new ApiError(404, `could not find database with id ${shorten(id)}: record not found`)
    return row
  }

  databaseByName(name: string): DatabaseRow {
    const row = this.plane.registry.findDatabase(this.organization.id, name)
    if (row === undefined || row.state === 'creating' || !this.#canAccess(row.group))
      throw new ApiError(404, `could not find database with name ${shorten(name)}: record not found`)
    return row
  }

  /** Returns the group named in the path, by its name or id, if the caller's token can access it. @throws ApiError 404 */
  group(): GroupRow {
    const { groupId: id } = this.request.params
    return id === undefined
      ? this.groupByName(this.param('groupName'))
      : this.#accessibleGroup(this.plane.registry.groups.get(id))
  }

  groupByName(name: string): GroupRow {
    return this.#accessibleGroup(this.plane.registry.findGroup(this.organization.id, name))
  }

  /** Returns the databases of the organization that the caller's token can access. */
  databases(): readonly DatabaseRow[] {
    return this.plane.registry.databases.rows.filter(
      ({ organization, group, state }) =>
        organization === this.organization.id &&
        this.#canAccess(group) &&
        state !== 'creating' &&
        state !== 'deleting',
    )
  }

  /** Returns the groups of the organization that the caller's token can access. */
  groups(): readonly GroupRow[] {
    return this.plane.registry.groups.rows.filter(
      ({ id, organization }) => organization === this.organization.id && this.#canAccess(id),
    )
  }

  /**
   * Changes the registry and adds an audit entry, in one transaction.
   * @param entry null if nothing changes, or if the service's audit log has no code for the change
   */
  commit(
    entry: AuditEntry | null,
    change: () => void,
    organization = this.#requiredGrant.organization?.id,
  ): void {
    this.plane.registry.transaction(() => {
      change()
      if (entry !== null) this.addAuditEntry(entry, organization)
    })
  }

  /** Adds an audit entry, within the caller's transaction. */
  addAuditEntry(entry: AuditEntry, organization = this.#requiredGrant.organization?.id): void {
    if (organization !== undefined) this.plane.audit.add(organization, this.#author, entry)
  }

  get #author(): AuditAuthor {
    const isCli = this.request.userAgent.startsWith('turso-cli')
    const { user, token } = this.caller
    return { username: user.username, origin: isCli ? 'cli' : 'web', token: token.name }
  }

  #accessibleGroup(row: GroupRow | undefined): GroupRow {
    if (row === undefined || row.organization !== this.organization.id || !this.#canAccess(row.id))
      throw new ApiError(404, 'group not found')
    return row
  }

  #canAccess(group: string): boolean {
    return this.onlyGroup === null || this.onlyGroup === group
  }

  get #requiredGrant(): Grant {
    if (this.#grant === null) throw new Error('the route is public')
    return this.#grant
  }
}
