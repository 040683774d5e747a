import { checkOptions } from '../../base/check-options.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { type Deleted, type PlatformHttp, REMOVE, type RemoveOptions } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import type { MintOptions } from '../resources/token-options.ts'
import { bodyOf, type Raw } from '../view.ts'

export interface KeySet extends Raw {
  readonly jwksName: string
  readonly jwksUrl: string
}

/** What tokens of another issuer may do, and where. */
export interface TemplateInput {
  readonly database?: string | undefined
  readonly group?: string | undefined
  readonly scope?: 'full-access' | 'read-only' | undefined
  readonly permissions?: MintOptions['permissions']
}

const TEMPLATE = {
  database: 'string',
  group: 'string',
  scope: "'full-access' or 'read-only'",
  permissions: 'object',
}

export class UnstableKeySets {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  list(options: PlatformCallOptions = {}): PlatformCall<KeySet[]> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v2/organizations/${http.organization}/jwks` },
      options,
      (answer) => answer.list<KeySet>('jwks'),
    )
  }

  /** Adds a key set, or changes the one of that name. */
  put(
    name: string,
    keySet: { readonly jwksUrl: string; readonly region?: string | undefined },
    options: PlatformCallOptions = {},
  ): PlatformCall<void> {
    checkOptions(keySet, { jwksUrl: 'string', region: 'string' })
    const http = this.#http
    return http.command(
      {
        method: 'PUT',
        path: path`/v2/organizations/${http.organization}/jwks/${name}`,
        body: bodyOf(keySet),
      },
      options,
    )
  }

  delete(
    name: string,
    options: RemoveOptions & { readonly region?: string | undefined } = {},
  ): PlatformCall<Deleted> {
    checkOptions(options, { ...REMOVE, region: 'string' })
    const { region, ...removeOptions } = options
    const http = this.#http
    return http.remove(
      {
        method: 'DELETE',
        path: path`/v2/organizations/${http.organization}/jwks/${name}`,
        body: bodyOf({ region }),
      },
      removeOptions,
    )
  }

  /** What the claims of a token must be. Keys of the template are those of the token. */
  createTemplate(
    template: TemplateInput,
    options: PlatformCallOptions = {},
  ): PlatformCall<Readonly<Record<string, unknown>>> {
    checkOptions(template, TEMPLATE)
    const { database, group, scope, permissions } = template
    const http = this.#http
    return http.call(
      {
        method: 'POST',
        path: path`/v2/organizations/${http.organization}/jwks-template`,
        body: {
          database,
          group,
          scope,
          permissions: permissions?.map(({ tables, actions }) => ({ t: tables, a: actions })),
        },
      },
      options,
      (answer) => answer.map('template'),
    )
  }
}
