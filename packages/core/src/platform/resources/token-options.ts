import type { Known } from '../models.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { CALL, type Route } from '../platform-http.ts'
import type { PlatformPath } from '../platform-path.ts'

/** What may be done with the tables that a permission names. */
export type TableAction =
  | 'data_read'
  | 'data_add'
  | 'data_update'
  | 'data_delete'
  | 'schema_add'
  | 'schema_update'
  | 'schema_delete'

/** What a token of a database or group may do. */
export interface MintOptions {
  /** How long it lives: `2w1d30m`, `1h`, or `never`. @default 'never' */
  readonly expiration?: string | undefined
  /** @default 'full-access' */
  readonly authorization?: 'full-access' | 'read-only' | undefined
  /** Databases that it may attach and read. Sent only when given: some engines refuse any. */
  readonly readAttach?: readonly string[] | undefined
  /** Permissions for single tables; `tables: null` means all. The service has them, its documentation does not. */
  readonly permissions?:
    | readonly {
        readonly tables: readonly string[] | null
        readonly actions: readonly Known<TableAction>[]
      }[]
    | undefined
}

export type CreateTokenOptions = MintOptions & PlatformCallOptions

export const MINT = {
  expiration: 'string',
  authorization: "'full-access' or 'read-only'",
  readAttach: 'object',
  permissions: 'object',
}
export const CREATE_TOKEN = { ...CALL, ...MINT }

/** The request that makes a token. There is no body unless something is to be in it. */
export function mintRoute(path: PlatformPath, options: MintOptions): Route {
  const { expiration, authorization, readAttach, permissions } = options
  const hasBody = readAttach !== undefined || permissions !== undefined
  return {
    method: 'POST',
    path,
    query: { expiration, authorization },
    body: hasBody
      ? {
          permissions: readAttach && { read_attach: { databases: readAttach } },
          fine_grained_permissions: permissions?.map(({ tables, actions }) => ({ t: tables, a: actions })),
        }
      : undefined,
  }
}
