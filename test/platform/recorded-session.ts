import { strict as assert } from 'node:assert'
import { sendHttp } from '../support/send-http.ts'

// oxlint-disable-next-line typescript/no-explicit-any -- the CLI does not validate responses
type JsonBody = any

/** The platform API on which a session runs. */
export interface SessionTarget {
  readonly url: string
  /** The token to enter on the login page. */
  readonly token: string
}

/** A request as it is sent. */
interface SessionRequest {
  readonly method: string
  readonly url: string
  readonly body?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
}

const ORGANIZATION_V2 = '/v2/organizations/local'
const DUMP_TEXT =
  'PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE t (a);\nINSERT INTO t VALUES(42);\nCOMMIT;\n'
const MAX_LINE_LENGTH = 150

/**
 * Sends the recorded requests of the vendor's CLI, command by command, and records the responses. Values that differ between runs
 * (tokens, ids, ports, times, sizes) are replaced by placeholders.
 */
export class VendorSession {
  readonly #target: SessionTarget
  readonly #lines: string[] = []
  token = ''

  constructor(target: SessionTarget) {
    this.#target = target
  }

  /** URL of the platform API. */
  get base(): string {
    return this.#target.url
  }

  get transcript(): string {
    return `${this.#lines.join('\n')}\n`
  }

  /** Runs a command. Like the CLI, first validates the token, which does not contain its expiry. */
  async command(line: string, work: () => Promise<void>): Promise<void> {
    this.#lines.push(`${this.#lines.length === 0 ? '' : '\n'}$ turso ${line}`)
    if (this.token !== '') assert.deepEqual(await this.sendRequest('GET', '/v1/auth/validate'), { exp: -1 })
    await work()
  }

  /** Sends a request that must succeed. A path without a slash at its beginning is relative to the organization. */
  async sendRequest(method: string, path: string, body?: unknown): Promise<JsonBody> {
    const { status, reply } = await this.try(method, path, body)
    assert.deepEqual([status, reply?.error], [200, undefined], `${method} ${path}: ${JSON.stringify(reply)}`)
    return reply
  }

  async try(method: string, path: string, body?: unknown): Promise<{ status: number; reply: JsonBody }> {
    const headers = {
      authorization: `Bearer ${this.token}`,
      'user-agent': 'turso-cli/dev (linux/amd64)',
      tursocliversion: 'dev',
      // on every request except uploads, even without a body
      'content-type': 'application/json',
    }
    const text = body === undefined ? undefined : JSON.stringify(body)
    const url = this.#target.url + (path.startsWith('/') ? path : `/v1/organizations/local/${path}`)
    const { status, content } = await this.send({ method, url, body: text, headers })
    return { status, reply: content === '' ? undefined : JSON.parse(content) }
  }

  /** Sends a request, and adds it to the transcript. */
  async send(
    outgoingRequest: SessionRequest,
  ): Promise<{ status: number; content: string; location: string }> {
    const { method, url, body = '', headers = {} } = outgoingRequest
    const allHeaders = { ...headers, 'content-length': Buffer.byteLength(body) }
    const { text: content, ...response } = await sendHttp(url, { method, headers: allHeaders, body })
    const reply = { status: response.status, content, location: response.headers.location ?? '' }
    const isPage = reply.content.startsWith('<')
    const text = [reply.location, isPage ? 'a page' : reply.content].filter((text) => text !== '').join(' ')
    this.#write(`  ${method} ${url} ${body}`.trimEnd())
    this.#write(`    ${reply.status} ${text}`.trimEnd())
    return reply
  }

  #write(line: string): void {
    const text = this.#replaceVariableValues(line.replaceAll(/\r?\n/g, ' '))
    this.#lines.push(text.length > MAX_LINE_LENGTH ? `${text.slice(0, MAX_LINE_LENGTH)}…` : text)
  }

  /** Replaces values so that the text is the same in every run. */
  #replaceVariableValues(text: string): string {
    const { host } = new URL(this.#target.url)
    return (
      text
        .replaceAll(`http://${host}/`, '/')
        .replaceAll(/\bey[\w-]+\.[\w-]+\.[\w-]+/g, 'TOKEN')
        .replaceAll(/[\da-f]{8}-[\da-f-]{27}/g, 'ID')
        .replaceAll(/127\.0\.0\.1:\d+/g, 'HOST')
        .replaceAll(/\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?/g, 'TIME')
        .replaceAll(
          /"(rows_read|rows_written|storage_bytes|bytes_synced|query_duration_ms|ValidFrom)":[\d.]+/g,
          '"$1":N',
        )
        .replaceAll(/"version":"[^"]*"/g, '"version":"V"')
        .replaceAll(/"id":"[\w-]{22}"/g, '"id":"ID"')
        // back ends count the statements of a dump differently
        .replaceAll(/\[\{"query":.*$/g, '[the queries]')
        .replaceAll(/--[\da-f]{24,}[\s\S]*?name="file"[\s\S]*$/g, '(the file as a form)')
    )
  }
}

/**
 * Replays a session of the vendor's CLI from login to logout, on the organization `local` with its group `default`.
 * Throws wherever the CLI would fail.
 * @returns the requests and responses
 */
export async function replaySession(target: SessionTarget): Promise<string> {
  const session = new VendorSession(target)
  await session.command('auth login', () => logIn(session, target))
  await session.command('auth whoami', async () => {
    assert.equal((await session.sendRequest('GET', '/v1/current-user')).user.username, 'owner')
  })
  await session.command('group create team --location ams', async () => {
    await session.sendRequest('POST', 'groups', { Name: 'team', Location: 'ams', Version: '' })
  })
  await session.command('db create app --group team', async () => {
    await session.sendRequest('GET', 'groups')
    await session.sendRequest('POST', 'databases', { name: 'app', location: 'ams', group: 'team' })
  })
  const app = await runShell(session)
  await importDump(session)
  await manageTokens(session, app)
  await inspect(session)
  await configure(session)
  await destroy(session)
  return session.transcript
}

/** Opens the login page as a browser would, and receives a token. */
async function logIn(session: VendorSession, { url, token }: SessionTarget): Promise<void> {
  const page = await session.send({
    method: 'GET',
    url: `${url}/?port=4567&redirect=true&type=cli&state=abc`,
  })
  assert.equal(page.status, 200)
  const fields = new URLSearchParams({ token, port: '4567', state: 'abc' })
  const redirect = await session.send({ method: 'POST', url: `${url}/`, body: fields.toString() })
  const location = new URL(redirect.location)
  const state = location.searchParams.get('state')
  assert.deepEqual([redirect.status, location.origin, state], [303, 'http://localhost:4567', 'abc'])
  session.token = location.searchParams.get('jwt') ?? ''
  assert.equal((await session.sendRequest('GET', '/v1/current-user')).user.username, 'owner')
}

interface Shell {
  readonly host: string
  readonly jwt: string
}

async function runShell(session: VendorSession): Promise<Shell> {
  const openShell = async (): Promise<Shell> => {
    const { databases } = await session.sendRequest('GET', 'databases?limit=1000')
    const { Hostname, primaryRegion } = databases.find(({ Name }: { Name: string }) => Name === 'app')
    // with any other region, the CLI would use TLS
    assert.equal(primaryRegion, 'local')
    const { jwt } = await session.sendRequest('POST', 'databases/app/auth/tokens?expiration=2d', {})
    return { host: `http://${Hostname}`, jwt }
  }
  const run = async ({ host, jwt }: Shell, sql: string): Promise<string> => {
    const requests = [{ type: 'execute', stmt: { sql, want_rows: true } }, { type: 'close' }]
    const headers = { authorization: `Bearer ${jwt}`, 'content-type': 'application/json' }
    const request = {
      method: 'POST',
      url: `${host}/v2/pipeline`,
      body: JSON.stringify({ requests }),
      headers,
    }
    const { status, content } = await session.send(request)
    assert.equal(status, 200, content)
    return content
  }
  let app: Shell = { host: '', jwt: '' }
  await session.command('db shell app "CREATE TABLE t (a)"', async () => {
    app = await openShell()
    await run(app, 'CREATE TABLE t (a)')
  })
  await session.command('db shell app "INSERT INTO t VALUES (7)"', async () => {
    assert.match(await run(app, 'INSERT INTO t VALUES (7)'), /"affected_row_count":1/)
  })
  await session.command('db shell app "SELECT a FROM t"', async () => {
    assert.match(await run(app, 'SELECT a FROM t'), /"value":"7"/)
  })
  await session.command('db shell app .dump', async () => {
    const { instances } = await session.sendRequest('GET', 'databases/app/instances')
    const headers = { authorization: `Bearer ${app.jwt}` }
    const dump = await session.send({ method: 'GET', url: `http://${instances[0].hostname}/dump`, headers })
    assert.match(dump.content, /INSERT INTO t VALUES\(7\)/)
  })
  return app
}

async function importDump(session: VendorSession): Promise<void> {
  await session.command('db create copy --from-dump dump.sql --group team', async () => {
    await session.sendRequest('GET', 'groups')
    const url = (await upload(session)).dump_url
    const seed = { type: 'dump', url }
    await session.sendRequest('POST', 'databases', { name: 'copy', location: 'ams', group: 'team', seed })
  })
  await session.command('db branch copy branch', async () => {
    await session.sendRequest('GET', 'databases?limit=1000')
    const seed = { type: 'database', value: 'copy' }
    await session.sendRequest('POST', 'databases', { name: 'branch', location: 'ams', group: 'team', seed })
  })
  await session.command('db list', async () => {
    const { databases, pagination } = await session.sendRequest('GET', 'databases?limit=1000')
    const names = databases.map(({ Name }: { Name: string }) => Name)
    assert.deepEqual([names, pagination.next], [['default', 'app', 'copy', 'branch'], null])
  })
}

async function upload(session: VendorSession): Promise<JsonBody> {
  const boundary = '0123456789abcdef0123456789abcdef'
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="dump.sql"\r\n`
  const body = `${head}Content-Type: application/octet-stream\r\n\r\n${DUMP_TEXT}\r\n--${boundary}--\r\n`
  const { status, content } = await session.send({
    method: 'POST',
    url: `${session.base}/v1/organizations/local/databases/dumps`,
    body,
    headers: {
      authorization: `Bearer ${session.token}`,
      'content-type': `multipart/form-data; boundary=${boundary}`,
    },
  })
  assert.equal(status, 200, content)
  return JSON.parse(content)
}

async function manageTokens(session: VendorSession, { host, jwt }: Shell): Promise<void> {
  await session.command('db tokens create app --read-only', async () => {
    const path = 'databases/app/auth/tokens?expiration=never&authorization=read-only'
    assert.match((await session.sendRequest('POST', path, {})).jwt, /^ey/)
  })
  await session.command('group tokens create team', async () => {
    await session.sendRequest('POST', 'groups/team/auth/tokens?expiration=never', {})
  })
  await session.command('group tokens invalidate team', async () => {
    await session.sendRequest('POST', 'groups/team/auth/rotate')
    const headers = { authorization: `Bearer ${jwt}` }
    assert.equal((await session.send({ method: 'GET', url: `${host}/dump`, headers })).status, 401)
  })
  await session.command('auth api-tokens mint ci --org local --group team --scope read-only', async () => {
    await session.sendRequest('GET', '/v2/organizations')
    await session.sendRequest('GET', 'groups/team')
    const permissions = { organization: 'local', group: 'team', scopes: ['read-only'] }
    await session.sendRequest('POST', '/v2/auth/api-tokens/ci', permissions)
  })
  await session.command('auth api-tokens revoke ci', async () => {
    const apiTokens = (await session.sendRequest('GET', '/v1/auth/api-tokens')).tokens
    assert.deepEqual(apiTokens.find(({ name }: { name: string }) => name === 'ci').scopes, ['read'])
    await session.sendRequest('DELETE', '/v1/auth/api-tokens/ci')
  })
}

async function inspect(session: VendorSession): Promise<void> {
  await session.command('db show app', async () => {
    await session.sendRequest('GET', 'databases?limit=1000')
    await session.sendRequest('GET', 'databases/app/configuration')
    await session.sendRequest('GET', 'databases/app/usage')
    await session.sendRequest('GET', 'databases/app/instances')
  })
  await session.command('db inspect app', async () => {
    const { usage } = (await session.sendRequest('GET', 'databases/app/usage')).database
    assert.ok(usage.rows_written >= 1)
  })
  await session.command('db inspect copy --queries', async () => {
    const path = 'databases/copy/usage/queries?from=2024-01-01T00:00:00Z'
    const queries = await session.sendRequest('GET', path)
    assert.ok(Array.isArray(queries))
  })
  await session.command('plan show', async () => {
    await session.sendRequest('GET', '/v1/plans')
    await session.sendRequest('GET', 'usage')
    await session.sendRequest('GET', 'subscription')
  })
  await session.command('org jwks save idp https://issuer.test/jwks.json', async () => {
    const body = { jwks_url: 'https://issuer.test/jwks.json', region: 'local' }
    await session.sendRequest('PUT', `${ORGANIZATION_V2}/jwks/idp`, body)
  })
  await session.command('org jwks list', async () => {
    const { jwks } = await session.sendRequest('GET', `${ORGANIZATION_V2}/jwks`)
    assert.equal(jwks[0].jwks_name, 'idp')
  })
  await session.command('org jwks remove idp', async () => {
    await session.sendRequest('DELETE', `${ORGANIZATION_V2}/jwks/idp`, { region: 'local' })
  })
  await session.command('org jwks template --database copy', async () => {
    const body = { database: 'copy', scope: 'full-access' }
    const { template } = await session.sendRequest('GET', `${ORGANIZATION_V2}/jwks-template`, body)
    assert.equal(template.a, 'rw')
  })
}

async function configure(session: VendorSession): Promise<void> {
  const path = 'databases/app/configuration'
  await session.command('db config delete-protection enable app', async () => {
    await session.sendRequest('PATCH', path, { allow_attach: null, delete_protection: true })
  })
  await session.command('db destroy app', async () => {
    // 403 would make the CLI reset the selected organization
    assert.equal((await session.try('DELETE', 'databases/app')).status, 400)
  })
  await session.command('db config delete-protection disable app', async () => {
    await session.sendRequest('PATCH', path, { allow_attach: null, delete_protection: false })
  })
}

async function destroy(session: VendorSession): Promise<void> {
  await session.command('db destroy app copy branch', async () => {
    for (const name of ['app', 'copy', 'branch']) await session.sendRequest('DELETE', `databases/${name}`)
  })
  await session.command('group destroy team', async () => {
    await session.sendRequest('DELETE', 'groups/team')
  })
  await session.command('auth logout --all', async () => {
    assert.ok((await session.sendRequest('POST', '/v1/auth/invalidate')).ValidFrom > 1_700_000_000)
    assert.equal((await session.try('GET', '/v1/auth/validate')).status, 401)
  })
}
