import { checkOptions } from '../../base/check-options.ts'
import type { Group } from '../models.ts'
import { type Page, Pages, readCursor } from '../pages.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { type Deleted, PAGED, type PlatformHttp, REMOVE, type RemoveOptions } from '../platform-http.ts'
import { type PlatformPath, path } from '../platform-path.ts'
import type { DatabaseToken } from '../platform-token.ts'
import { CREATE_TOKEN, type CreateTokenOptions, mintRoute } from '../resources/token-options.ts'
import { bodyOf, type Raw } from '../view.ts'

export interface DatabaseV3 extends Raw {
  readonly dbId: string
  readonly name: string
  readonly hostname: string
  readonly group: string
  readonly deleteProtection: boolean
  readonly allowRulesConfig?: {
    readonly allowedIps: readonly string[]
    readonly allowedAwsVpcIds: readonly string[]
  }
  readonly parent?: Readonly<Record<string, unknown>> | null
  readonly encryptionCipher?: string
}

export interface NewDatabaseV3 {
  readonly name: string
  readonly groupId?: string | undefined
  readonly seed?:
    | {
        readonly type: string
        readonly value?: string | undefined
        readonly url?: string | undefined
        readonly timestamp?: string | Date | undefined
      }
    | undefined
  readonly remoteEncryption?:
    | { readonly encryptionKey: string; readonly encryptionCipher: string }
    | undefined
  readonly useTursodb?: boolean | undefined
}

export interface ListDatabasesV3Options extends PlatformCallOptions {
  readonly groupId?: string | undefined
  readonly parentDbId?: string | undefined
  /** How many at a time. @default 100 */
  readonly pageSize?: number | undefined
}

const NEW_DATABASE = {
  name: 'string',
  groupId: 'string',
  seed: 'object',
  remoteEncryption: 'object',
  useTursodb: 'boolean',
}

/** Each call takes the id of an organization, as in `unstable.organizations.list()`. */
export class UnstableV3 {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  listDatabases(organizationId: string, options: ListDatabasesV3Options = {}): Pages<DatabaseV3> {
    checkOptions(options, { ...PAGED, groupId: 'string', parentDbId: 'string' })
    const { groupId, parentDbId, pageSize = 100, ...callOptions } = options
    return new Pages((cursor) =>
      this.#http.call<Page<DatabaseV3>>(
        {
          method: 'GET',
          path: path`/v3/organizations/${organizationId}/databases`,
          query: { group_id: groupId, parent_db_id: parentDbId, limit: pageSize, cursor },
        },
        callOptions,
        (answer) => ({ items: answer.list<DatabaseV3>('databases'), next: readCursor(answer) }),
      ),
    )
  }

  createDatabase(
    organizationId: string,
    database: NewDatabaseV3,
    options: PlatformCallOptions = {},
  ): PlatformCall<DatabaseV3> {
    checkOptions(database, NEW_DATABASE)
    return this.#http.call(
      {
        method: 'POST',
        path: path`/v3/organizations/${organizationId}/databases`,
        body: bodyOf(database),
      },
      options,
      (answer) => answer.object<DatabaseV3>('database', 'dbId'),
    )
  }

  getDatabase(
    organizationId: string,
    databaseId: string,
    options: PlatformCallOptions = {},
  ): PlatformCall<DatabaseV3> {
    return this.#http.call(
      { method: 'GET', path: path`/v3/organizations/${organizationId}/databases/${databaseId}` },
      options,
      (answer) => answer.object<DatabaseV3>('database', 'dbId'),
    )
  }

  deleteDatabase(
    organizationId: string,
    databaseId: string,
    options: RemoveOptions = {},
  ): PlatformCall<Deleted> {
    checkOptions(options, REMOVE)
    return this.#http.remove(
      { method: 'DELETE', path: path`/v3/organizations/${organizationId}/databases/${databaseId}` },
      options,
    )
  }

  createDatabaseToken(
    organizationId: string,
    databaseId: string,
    options: CreateTokenOptions = {},
  ): PlatformCall<DatabaseToken> {
    return this.#mint(path`/v3/organizations/${organizationId}/databases/${databaseId}/auth/tokens`, options)
  }

  listGroups(organizationId: string, options: PlatformCallOptions = {}): PlatformCall<Group[]> {
    return this.#http.call(
      { method: 'GET', path: path`/v3/organizations/${organizationId}/groups` },
      options,
      (answer) => answer.list<Group>('groups'),
    )
  }

  getGroup(organizationId: string, groupId: string, options: PlatformCallOptions = {}): PlatformCall<Group> {
    return this.#http.call(
      { method: 'GET', path: path`/v3/organizations/${organizationId}/groups/${groupId}` },
      options,
      (answer) => answer.object<Group>('group', 'name'),
    )
  }

  createGroupToken(
    organizationId: string,
    groupId: string,
    options: CreateTokenOptions = {},
  ): PlatformCall<DatabaseToken> {
    return this.#mint(path`/v3/organizations/${organizationId}/groups/${groupId}/auth/tokens`, options)
  }

  #mint(at: PlatformPath, options: CreateTokenOptions): PlatformCall<DatabaseToken> {
    checkOptions(options, CREATE_TOKEN)
    const { signal, timeoutMs, ...mint } = options
    return this.#http.call(
      mintRoute(at, mint),
      { signal, timeoutMs },
      (answer) => answer.text('jwt') as DatabaseToken,
    )
  }
}
