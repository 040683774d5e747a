import * as v from 'valibot'
import type { AuditAuthor, AuditEntry } from '../audit.ts'
import type { ControlPlane } from '../control-plane.ts'
import { Refusal } from '../refusal.ts'
import type { DatabaseRow, GroupRow, OrganizationRow, Role } from '../registry/rows.ts'
import type { Caller } from '../tokens/api-tokens.ts'
import type { Grant } from './access.ts'
import type { DumpStore } from './dump-store.ts'

/** What routes work with besides the request. */
export interface Platform {
  readonly plane: ControlPlane
  readonly dumps: DumpStore
  /** What databases are reached at, as `127.0.0.1:8080`. */
  readonly databaseOrigin: () => string
  /** What this API is reached at. */
  readonly url: () => string
  /** How long a database that was just created does not answer, in ms. */
  readonly readyDelayMs: number
  /** What is answered where a name is taken: 409 stands in the documents, 400 was seen. */
  readonly takenNameStatus: 400 | 409
  /** Name and version of the databases' engine. */
  readonly version: string
}

/** A request as it was read: everything in it is text that anybody may have written. */
export interface ReadRequest {
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** JSON with its keys in lower case, as the service reads them; `{}` for an empty body. */
  readonly body: Readonly<Record<string, unknown>>
  readonly userAgent: string
  readonly raw: Request
}

/** A request to a route, by a caller who may use it. */
export class Call {
  readonly platform: Platform
  readonly request: ReadRequest
  readonly #grant: Grant | null

  /** `grant` is null on routes that need no token. */
  constructor(platform: Platform, request: ReadRequest, grant: Grant | null) {
    this.platform = platform
    this.request = request
    this.#grant = grant
  }

  get plane(): ControlPlane {
    return this.platform.plane
  }

  get caller(): Caller {
    return this.#granted.caller
  }

  get organization(): OrganizationRow {
    const { organization } = this.#granted
    if (organization === null) throw new Error('the route is about no organization')
    return organization
  }

  get role(): Role | null {
    return this.#granted.role
  }

  /** The id of the only group the caller's token reaches; null for all. */
  get onlyGroup(): string | null {
    return this.#granted.group
  }

  /** A part of the path. */
  param(name: string): string {
    const value = this.request.params[name]
    if (value === undefined) throw new Error(`the path has no :${name}`)
    return value
  }

  query(name: string): string | undefined {
    return this.request.query.get(name) ?? undefined
  }

  /** The body in the shape that is wanted. @throws v.ValiError */
  body<Schema extends v.GenericSchema>(schema: Schema): v.InferOutput<Schema> {
    return v.parse(schema, this.request.body)
  }

  /** The database of the path, if the caller's token reaches it. @throws Refusal 404 */
  database(name = this.param('databaseName')): DatabaseRow {
    const row = this.plane.registry.findDatabase(this.organization.id, name)
    if (row === undefined || row.state === 'creating' || !this.#reaches(row.group))
      throw new Refusal(404, `could not find database with name ${name.slice(0, 80)}: record not found`)
    return row
  }

  /** The group of the path, if the caller's token reaches it. @throws Refusal 404 */
  group(name = this.param('groupName')): GroupRow {
    const row = this.plane.registry.findGroup(this.organization.id, name)
    if (row === undefined || !this.#reaches(row.id)) throw new Refusal(404, 'group not found')
    return row
  }

  /** The databases of the organization that the caller's token reaches. */
  databases(): readonly DatabaseRow[] {
    return this.plane.registry.databases.rows.filter(
      ({ organization, group, state }) =>
        organization === this.organization.id &&
        this.#reaches(group) &&
        state !== 'creating' &&
        state !== 'deleting',
    )
  }

  groups(): readonly GroupRow[] {
    return this.plane.registry.groups.rows.filter(
      ({ id, organization }) => organization === this.organization.id && this.#reaches(id),
    )
  }

  /** Changes the registry and writes down who did it, both or neither. */
  commit(entry: AuditEntry | null, change: () => void, organization = this.#granted.organization?.id): void {
    this.plane.registry.transaction(() => {
      change()
      if (entry !== null) this.note(entry, organization)
    })
  }

  /** Writes down who did something, in a transaction of the caller's. */
  note(entry: AuditEntry, organization = this.#granted.organization?.id): void {
    if (organization !== undefined) this.plane.audit.add(organization, this.#author, entry)
  }

  get #author(): AuditAuthor {
    const isCli = this.request.userAgent.startsWith('turso-cli')
    const { user, token } = this.caller
    return { username: user.username, origin: isCli ? 'cli' : 'web', token: token.name }
  }

  #reaches(group: string): boolean {
    return this.onlyGroup === null || this.onlyGroup === group
  }

  get #granted(): Grant {
    if (this.#grant === null) throw new Error('the route knows no caller')
    return this.#grant
  }
}
