import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type LocalPlatform,
  type LocalServer,
  type PlatformOptions,
  startLocalServer,
} from '@batonsql/local-server'
import { inject, onTestFinished } from 'vitest'

/** A response from the platform API. */
export interface TestResponse {
  readonly status: number
  // oxlint-disable-next-line typescript/no-explicit-any -- each test reads the fields that it expects
  readonly body: any
}

/** The options of a request. */
export interface RequestOptions {
  readonly token?: string | null
  readonly body?: unknown
}

/** The outcome of a pipeline: the rows of its last statement, or the code of its first error. */
export interface SqlOutcome {
  readonly status: number
  readonly rows: readonly (readonly string[])[]
  readonly error: string | null
  readonly baton: string | null
}

/** A server with the platform API, on the back end of this run, and shortcuts for requests. */
export class Harness implements AsyncDisposable {
  readonly server: LocalServer
  readonly platform: LocalPlatform

  private constructor(server: LocalServer, platform: LocalPlatform) {
    this.server = server
    this.platform = platform
  }

  static async start(options: PlatformOptions = {}, dataDirectory?: string): Promise<Harness> {
    const backend = inject('target') as 'embedded' | 'sqld'
    const server = await startLocalServer({
      backend,
      platform: options,
      ...(dataDirectory !== undefined && { dataDirectory }),
    })
    return new Harness(server, server.platform as LocalPlatform)
  }

  /** Starts a server that stops when the test ends. */
  static async forTest(options: PlatformOptions = {}): Promise<Harness> {
    const harness = await Harness.start(options)
    onTestFinished(() => harness[Symbol.asyncDispose]())
    return harness
  }

  /** Path of the server's own organization. */
  get orgPath(): string {
    return `/v1/organizations/${this.platform.organization}`
  }

  /** Sends a request. A path without a slash at its beginning is relative to the server's own organization. */
  async sendRequest(
    method: string,
    path: string,
    { token, body }: RequestOptions = {},
  ): Promise<TestResponse> {
    const bearer = token === undefined ? this.platform.token : token
    const fullPath = path.startsWith('/') ? path : `${this.orgPath}/${path}`
    const response = await fetch(this.platform.url + fullPath, {
      method,
      headers: bearer === null ? {} : { authorization: `Bearer ${bearer}` },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
  }

  /** Sends a request. @returns the status of the response */
  async statusOf(method: string, path: string, options: RequestOptions = {}): Promise<number> {
    return (await this.sendRequest(method, path, options)).status
  }

  /** Sends a request, and throws if it fails. @returns the body of the response */
  async requestOk(method: string, path: string, options: RequestOptions = {}): Promise<TestResponse['body']> {
    const { status, body } = await this.sendRequest(method, path, options)
    if (status !== 200) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(body)}`)
    return body
  }

  /** Creates a database in the server's organization. */
  async createDatabase(
    name: string,
    extra: object = {},
  ): Promise<{ readonly host: string; readonly id: string }> {
    const { database } = await this.requestOk('POST', 'databases', {
      body: { name, group: 'default', ...extra },
    })
    return { host: database.Hostname, id: database.DbId }
  }

  /** Creates a database with a token for it, and runs statements on it. */
  async openDatabase(name: string, statements: string | readonly string[] = [], extra: object = {}) {
    const database = await this.createDatabase(name, extra)
    const token = await this.tokenFor(name)
    if (statements.length > 0) await sql(database.host, token, statements)
    return { ...database, token }
  }

  /** Requests a new database, which may be rejected. */
  async tryToCreate(body: object, token?: string): Promise<TestResponse> {
    const options = { body: { group: 'default', ...body }, ...(token !== undefined && { token }) }
    return await this.sendRequest('POST', 'databases', options)
  }

  /** Uploads a dump. @returns its URL, for the seed of a database */
  async uploadDump(content: string | Uint8Array<ArrayBuffer>): Promise<string> {
    const form = new FormData()
    form.append('file', new Blob([content]), 'dump.sql')
    const response = await fetch(`${this.platform.url}${this.orgPath}/databases/dumps`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.platform.token}` },
      body: form,
    })
    return ((await response.json()) as { dump_url: string }).dump_url
  }

  /** Changes the configuration of a database. */
  async configure(name: string, body: object): Promise<TestResponse['body']> {
    return await this.requestOk('PATCH', `databases/${name}/configuration`, { body })
  }

  /** Creates an organization with a group `default`. */
  async createOrganization(name: string, token = this.platform.token): Promise<void> {
    await this.requestOk('POST', '/v1/organizations', { token, body: { name } })
    const body = { name: 'default', location: 'local' }
    await this.requestOk('POST', `/v1/organizations/${name}/groups`, { token, body })
  }

  /** Creates a group in the server's organization. */
  async createGroup(name: string): Promise<TestResponse['body']> {
    return await this.requestOk('POST', 'groups', { body: { name, location: 'local' } })
  }

  /** Returns the id of the server's organization, which version 3 of the API uses in its paths. */
  async organizationId(): Promise<string> {
    const { organizations } = await this.requestOk('GET', '/v2/organizations')
    const isOwn = ({ slug }: { readonly slug: string }): boolean => slug === this.platform.organization
    return organizations.find(isOwn).id
  }

  /** Creates a token for a database of the server's organization. */
  async tokenFor(name: string, query = '', body: object = {}): Promise<string> {
    return (await this.requestOk('POST', `databases/${name}/auth/tokens${query}`, { body })).jwt
  }

  /** Creates an API token of the owner, or of another user. */
  async createApiToken(name: string, body: object = {}, token?: string): Promise<string> {
    const path = `/v1/auth/api-tokens/${name}`
    return (await this.requestOk('POST', path, { body, ...(token !== undefined && { token }) })).token
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.close()
  }
}

/** Returns the folders in which a back end keeps its databases: libsql-server has one for each group. */
export async function databaseFolders(directory: string): Promise<readonly string[]> {
  if (inject('target') === 'embedded') return [join(directory, 'databases')]
  return (await groupFolders(directory)).map((group) => join(group, 'sqld', 'dbs'))
}

/** Returns the folders of groups whose libsql-server has run. */
export async function groupFolders(directory: string): Promise<readonly string[]> {
  const names = await readdir(join(directory, 'sqld'))
  return names.map((name) => join(directory, 'sqld', name))
}

/** Runs statements on a database, at its host. */
export async function sql(
  host: string,
  token: string,
  statements: string | readonly string[],
  { baton = null, keepOpen = false }: { readonly baton?: string | null; readonly keepOpen?: boolean } = {},
): Promise<SqlOutcome> {
  const requests = [statements].flat().map((text) => ({ type: 'execute', stmt: { sql: text } }))
  const response = await fetch(`http://${host}/v2/pipeline`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ baton, requests: [...requests, ...(keepOpen ? [] : [{ type: 'close' }])] }),
  })
  const text = await response.text()
  if (response.status !== 200) return { status: response.status, rows: [], error: text, baton: null }
  const reply = JSON.parse(text)
  const results = reply.results.slice(0, requests.length)
  const failure = results.find((result: { type: string }) => result.type === 'error')
  const cells = results.at(-1)?.response?.result?.rows ?? []
  return {
    status: 200,
    rows: cells.map((row: { value?: string }[]) => row.map(({ value }) => String(value))),
    error: failure === undefined ? null : (failure.error.code ?? failure.error.message),
    baton: reply.baton,
  }
}
