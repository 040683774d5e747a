import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { serveHttp } from '../../../test/support/serve-http.ts'
import {
  fetchFailure,
  type ScriptedResponse,
  scriptedPlatform,
  TOKEN,
  unsignedJwt,
} from '../test-support/scripted-platform.ts'
import {
  createPlatformClient,
  isAlreadyExists,
  isNotFound,
  type PlatformClient,
  type PlatformConfig,
  PlatformError,
  type PlatformFetch,
} from './index.ts'

const getRejection = async (promise: Promise<unknown>): Promise<PlatformError> => {
  const error: unknown = await promise.then(
    () => 'no error',
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(PlatformError)
  return error as PlatformError
}
const retrySoon = { 'retry-after-ms': '1' }
const unavailable = { status: 503, headers: retrySoon }
const noGroups = { body: { groups: [] } }
const never = new Promise<never>(() => {})

afterEach(() => {
  vi.restoreAllMocks()
})

describe('addresses', () => {
  test.each(['', '/', '/proxy', '/proxy/', '/a/b//'])('accepts a URL that ends with "%s"', async (end) => {
    const { platform, received } = scriptedPlatform(noGroups, { url: `http://api.test:81${end}` })
    await platform.groups.list()
    const url = `${end.replace(/\/+$/, '')}/v1/organizations/acme/groups`
    expect(received[0]).toMatchObject({ host: 'api.test:81', url })
  })

  test('encodes each part of a path', async () => {
    const { platform, received } = scriptedPlatform({ status: 404, body: { error: 'none' } })
    for (const name of ['a/../b', 'a b', '%2e%2e', 'ü', '?x=1', '#f', 'a\\b', '...', 'a;b'])
      await platform.databases.delete(name, { missingOk: true })
    const encoded = received.map(({ url }) => url.replace('/v1/organizations/acme/databases/', ''))
    expect(encoded.join(' ')).toBe('a%2F..%2Fb a%20b %252e%252e %C3%BC %3Fx%3D1 %23f a%5Cb ... a%3Bb')
  })

  test.each(['', '.', '..', '\ud800', 7, undefined, null])('rejects the invalid name %j', async (name) => {
    const { platform, received } = scriptedPlatform({})
    await expect(platform.databases.get(name as string)).rejects.toThrow(TypeError)
    await expect(platform.forOrganization(name as string).groups.list()).rejects.toThrow(TypeError)
    expect(received).toEqual([])
  })

  test.each([
    ['v1/user', 'begin with one "/"'],
    ['https://elsewhere.example/v1/user', 'begin with one "/"'],
    ['//elsewhere.example/v1', 'begin with one "/"'],
    ['/v1/../user', 'cannot have "." or ".."'],
    ['/v1/%2e%2E/user', 'cannot have "." or ".."'],
    ['/v1/./user', 'cannot have "." or ".."'],
    ['/v1/user?x=1', 'option query'],
    ['/v1/user#f', 'option query'],
    ['/v1/a\\b', 'segments encoded'],
    ['/v1/%zz', 'segments encoded'],
  ])('request() rejects the path %s', async (path, words) => {
    const { platform, received } = scriptedPlatform({})
    await expect(platform.request('GET', path)).rejects.toThrow(words)
    expect(received).toEqual([])
  })

  test.each(['', 'api.example.com', 'ftp://host', 'https://a:b@host', 'https://host?x=1', 'https://host#f'])(
    'rejects the invalid URL %j',
    (url) => {
      expect(() => createPlatformClient({ token: TOKEN, url })).toThrow(/^url (must|can)/)
    },
  )

  test('a call that needs an organization rejects if none is configured', async () => {
    const platform = createPlatformClient({ token: TOKEN })
    await expect(platform.groups.list()).rejects.toThrow('createPlatformClient({ organization')
    await expect(platform.databases.list().toArray()).rejects.toThrow('createPlatformClient({ organization')
  })

  test('forOrganization() sends calls to another organization', async () => {
    const { platform, received } = scriptedPlatform(noGroups)
    await platform.forOrganization('other').groups.list()
    await platform.groups.list()
    const organizations = ['other', 'acme']
    expect(received.map(({ url }) => url)).toEqual(
      organizations.map((name) => `/v1/organizations/${name}/groups`),
    )
  })

  test('Turso Cloud is the default service', async () => {
    const { platform, received } = scriptedPlatform({ body: { exp: -1 } }, { url: undefined })
    await platform.apiTokens.validate()
    expect(received[0]?.host).toBe('api.turso.tech')
  })
})

describe('errors', () => {
  test.each([400, 401, 402, 403, 404, 405, 409, 422, 429, 500, 501, 504])(
    'rejects HTTP %d with its details',
    async (status) => {
      const body = { error: 'these words', code: 'this_code', more: 1 }
      const response = { status, headers: { 'x-request-id': 'r1' }, body }
      const { platform } = scriptedPlatform(response, { maxRetries: 0 })
      const error = await getRejection(platform.groups.get('g'))
      expect(error).toMatchObject({
        name: 'PlatformError',
        code: 'HTTP_STATUS',
        status,
        serverCode: 'this_code',
        reason: 'these words',
        requestId: 'r1',
        method: 'GET',
        path: '/v1/organizations/acme/groups/g',
        outcome: [500, 504].includes(status) ? 'unknown' : 'not_applied',
        body: JSON.stringify(body),
      })
      expect(error.headers['content-type']).toBe('application/json')
      expect(error.message).toMatch(`GET ${error.path} returned HTTP ${status}: these words`)
      expect([isNotFound(error), isAlreadyExists(error)]).toEqual([status === 404, status === 409])
    },
  )

  test.each([
    ['HTML', '<html><body>Bad gateway</body></html>', null, /returned HTTP 404$/],
    ['nothing', '', null, /returned HTTP 404$/],
    ['text', 'slow down', null, /returned HTTP 404: slow down$/],
    ['an error that is an object', '{"error":{"why":1}}', '{"why":1}', /returned HTTP 404: {"why":1}$/],
    ['an error that is null', '{"error":null}', null, /returned HTTP 404: {"error":null}$/],
    ['JSON without an error', '[1]', null, /returned HTTP 404: \[1\]$/],
    ['truncated JSON', '{"error":"no', null, /returned HTTP 404: {"error":"no$/],
  ])('reads a rejection with %s', async (_, text, reason, words) => {
    const { platform } = scriptedPlatform({ status: 404, text })
    const error = await getRejection(platform.users.current())
    expect(error).toMatchObject({ status: 404, reason, serverCode: null, body: text })
    expect(error.message).toMatch(words)
    // a proxy's 404 does not mean that the resource does not exist
    expect(isNotFound(error)).toBe(reason !== null)
  })

  test('truncates the text of a rejection to 4,096 characters', async () => {
    const { platform } = scriptedPlatform({ status: 500, text: 'x'.repeat(5_000) })
    const { body, message } = await getRejection(platform.users.current())
    expect([body?.length, message.length]).toEqual([4_096, 'GET /v1/user returned HTTP 500: '.length + 500])
  })

  test('isAlreadyExists() recognizes the statuses and messages of the service', async () => {
    const isRecognized = async (response: ScriptedResponse): Promise<boolean> => {
      const { platform } = scriptedPlatform(response)
      return isAlreadyExists(await getRejection(platform.groups.create({ name: 'g', location: 'l' })))
    }
    const nameTaken = { error: 'database with same name already exists' }
    expect(await isRecognized({ status: 409, body: { error: 'group already exists' } })).toBe(true)
    expect(await isRecognized({ status: 400, body: nameTaken })).toBe(true)
    expect(await isRecognized({ status: 403, body: nameTaken })).toBe(false)
    expect(await isRecognized({ status: 400, body: { error: 'group not found' } })).toBe(false)
    expect(isAlreadyExists(new Error('already exists'))).toBe(false)
    expect(isNotFound(new Error('not found'))).toBe(false)
  })

  test.each([
    ['a body that is not JSON', { text: '<html>' }, /is not JSON but 6 characters of application\/json/],
    ['a truncated body', { text: '{"groups": [' }, /is not JSON but 12 characters/],
    ['an empty body', { text: '' }, /has no list "groups"/],
    ['no list', { body: {} }, /has no list "groups"/],
    ['null for a list', { body: { groups: null } }, /has no list "groups"/],
    ['an item that is not an object', { body: { groups: ['g'] } }, /that is not an object/],
  ])('rejects a successful response with %s', async (_, response, words) => {
    const { platform, received } = scriptedPlatform(response)
    const error = await getRejection(platform.groups.list())
    expect(error).toMatchObject({ status: 200, code: 'DECODE', body: null, outcome: 'unknown' })
    expect(error.message).toMatch(words)
    expect(received).toHaveLength(1)
  })

  test('rejects an object without its required fields', async () => {
    const { platform } = scriptedPlatform({ body: { message: 'ok' } })
    await expect(platform.databases.get('db')).rejects.toThrow('has no object "database" with "hostname"')
    await expect(platform.databases.createToken('db')).rejects.toThrow('has no string "jwt"')
    await expect(platform.locations.list()).rejects.toThrow('has no object "locations"')
    await expect(platform.apiTokens.validate()).rejects.toThrow('has no number "exp"')
    for (const locations of [null, ['fra'], 'fra']) {
      const malformed = scriptedPlatform({ body: { locations } })
      await expect(malformed.platform.locations.list()).rejects.toMatchObject({ code: 'DECODE' })
    }
  })

  test('no error contains the token, regardless of the response', async () => {
    const jwt = unsignedJwt({ a: 'rw' })
    const body = { error: `the token ${TOKEN} is not valid` }
    const responses: ScriptedResponse[] = [
      { status: 401, body, headers: { 'x-was': `Bearer ${TOKEN}` } },
      { status: 500, text: `<p>${TOKEN} ${jwt}</p>` },
      {
        status: 400,
        text: `{"error": "the token \\u00${TOKEN.charCodeAt(0).toString(16)}${TOKEN.slice(1)}"}`,
      },
      { status: 200, text: `{"jwt": "${jwt}"` },
      { drop: true },
    ]
    const { platform } = scriptedPlatform(responses, { maxRetries: 0 })
    const print = (error: unknown): string => inspect(error, { depth: 9, showHidden: true })
    for (const _ of responses) {
      const error = await getRejection(platform.databases.createToken('db'))
      const printed = [print(error), error.body, JSON.stringify(error.headers)]
      for (const secret of [TOKEN, TOKEN.slice(1), jwt]) expect(printed.join()).not.toContain(secret)
    }
    // long, and with characters that JSON may escape
    const longToken = `${'a'.repeat(20_000)}b/c`
    const escape = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
    const escapes = Array.from(longToken, escape).join('')
    for (const written of [longToken, longToken.replace('/', '\\/'), escapes, escapes.replace('2f', '2F')]) {
      const script = { status: 400, text: `{"error":"was ${written} and \\\\u0061"}` }
      const { platform: other } = scriptedPlatform(script, { maxRetries: 0, token: longToken })
      const error = await getRejection(other.users.current())
      expect(error).toMatchObject({ code: 'HTTP_STATUS', body: '{"error":"was [token] and \\\\u0061"}' })
      expect(error.message).toContain('was [token] and \\u0061')
    }
    const fetch = (): never => {
      throw Object.assign(new TypeError(`Bearer ${TOKEN} is not a header`), {
        headers: { authorization: TOKEN },
      })
    }
    const failing = createPlatformClient({ token: TOKEN, fetch, maxRetries: 0 })
    const error = await getRejection(failing.users.current())
    expect(print(error)).not.toContain(TOKEN)
    expect(error.message).toContain('[token] is not a header')
  })
})

describe('tokens', () => {
  test.each([
    [undefined, /environment variable/],
    [7, /token must be string or function/],
    ['', /token is empty/],
    ['a b', /contains invalid characters/],
    ['a\nb', /contains invalid characters/],
    ['"a"', /token begins or ends with a quote/],
    ['a\n', /token begins or ends with a space or a line break/],
    [unsignedJwt({ a: 'rw', id: 'x' }), /token is a database token/],
    [unsignedJwt({ gid: 'x' }), /token is a database token/],
  ])('rejects the invalid token %j', (token, words) => {
    const createClient = (): PlatformClient => createPlatformClient({ token: token as string })
    expect(createClient).toThrow(words)
    expect(createClient).toThrow(TypeError)
  })

  test('a JWT with its own id is not a database token', () => {
    expect(() => createPlatformClient({ token: unsignedJwt({ jti: '1', id: 'x' }) })).not.toThrow()
  })

  test('a token function is called before every attempt, and its result is checked', async () => {
    let tokenCount = 0
    const script = [unavailable, noGroups]
    const { platform, received } = scriptedPlatform(script, { token: async () => `t${(tokenCount += 1)}` })
    await platform.groups.list()
    expect(received.map(({ headers }) => headers['authorization'])).toEqual(['Bearer t1', 'Bearer t2'])

    const databaseToken = { token: () => unsignedJwt({ a: 'ro' }), organization: 'acme' }
    const databaseTokenClient = createPlatformClient(databaseToken)
    await expect(databaseTokenClient.groups.list()).rejects.toThrow('token is a database token')
    const failing = createPlatformClient({ token: () => Promise.reject(new Error('vault is sealed')) })
    await expect(failing.users.current()).rejects.toThrow('vault is sealed')
  })

  test.each(['\\/', '\\u002f'])(
    'no error contains a token from the response in which / is escaped as %s',
    async (slash) => {
      const token = 'abc/def"ghi'
      const escapedToken = JSON.stringify(token).slice(1, -1).replace('/', slash)
      const response = { status: 400, text: `{"error":"bad token ${escapedToken}"}` }
      const { platform } = scriptedPlatform(response, { token })
      const error = await getRejection(platform.groups.list())
      expect(error.message).toContain('[token]')
      const { message, reason } = error
      expect([message, reason].join().includes(token)).toBe(false)
    },
  )

  test('the error of a 401 states that the token is a database token', async () => {
    const rejection = { status: 401, body: { error: 'could not parse jwt id' } }
    const { platform } = scriptedPlatform(rejection)
    await expect(platform.users.current()).rejects.toThrow('this is a database token')
  })
})

describe('retries', () => {
  const create = { name: 'g', location: 'l' }
  const group = { body: { group: { name: 'g' } } }

  test.each([408, 429, 502, 503, 504])('a read after HTTP %d', async (status) => {
    const busy = { status, headers: retrySoon }
    const { platform, received } = scriptedPlatform([busy, busy, noGroups])
    expect(await platform.groups.list()).toEqual([])
    expect(received).toHaveLength(3)
  })

  test.each([400, 401, 403, 404, 409, 410, 422, 500, 501])('no read after HTTP %d', async (status) => {
    const { platform, received } = scriptedPlatform({ status, headers: retrySoon })
    await getRejection(platform.groups.list())
    expect(received).toHaveLength(1)
  })

  test.each([0, 3])('at most %d times', async (maxRetries) => {
    const { platform, received } = scriptedPlatform(unavailable, { maxRetries })
    await getRejection(platform.groups.list())
    expect(received).toHaveLength(1 + maxRetries)
  })

  test('reads, changes of settings and deletions after a lost connection', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0)
    const { platform, received } = scriptedPlatform((_, count) =>
      count % 2 ? { drop: true } : { body: { groups: [], delete_protection: true } },
    )
    await platform.groups.list()
    await platform.groups.updateConfiguration('g', { deleteProtection: true })
    await platform.databases.updateConfiguration('d', { blockReads: true })
    await platform.groups.delete('g')
    expect(received.map(({ method }) => method).join()).toBe('GET,GET,PATCH,PATCH,PATCH,PATCH,DELETE,DELETE')
  })

  test.each([
    ['a lost connection', { drop: true }],
    ['HTTP 503', unavailable],
    ['HTTP 408', { status: 408, headers: retrySoon }],
  ])('never a creation, a mint or a rotation, after %s', async (_, response) => {
    const { platform, received } = scriptedPlatform(response)
    const calls = [
      () => platform.groups.create(create),
      () => platform.databases.createToken('db'),
      () => platform.groups.createToken('g'),
      () => platform.databases.rotateTokens('db'),
      () => platform.groups.rotateTokens('g'),
      () => platform.apiTokens.create({ name: 'ci' }),
      () => platform.members.updateRole('ada', 'admin'),
      () => platform.request('POST', '/v1/new'),
    ]
    for (const call of calls) expect(await getRejection(call())).toMatchObject({ outcome: 'unknown' })
    expect(received).toHaveLength(calls.length)
  })

  test('a creation after 429, or if no connection was made', async () => {
    const { platform, received, fetch } = scriptedPlatform([{ status: 429, headers: retrySoon }, group])
    expect(await platform.groups.create(create)).toMatchObject({ name: 'g' })
    expect(received).toHaveLength(2)

    let attempts = 0
    vi.spyOn(Math, 'random').mockReturnValue(0)
    const flaky: PlatformFetch = async (...args) => {
      if ((attempts += 1) < 3) throw fetchFailure('ECONNREFUSED')
      return await fetch(...args)
    }
    const retryingClient = createPlatformClient({ token: TOKEN, organization: 'acme', fetch: flaky })
    expect(await retryingClient.groups.create(create)).toMatchObject({ name: 'g' })
    expect(attempts).toBe(3)
    attempts = -9
    const error = await getRejection(retryingClient.groups.create(create))
    expect(error).toMatchObject({ code: 'NETWORK', outcome: 'not_applied', status: null })
  })

  test('a custom request that is declared idempotent', async () => {
    const { platform, received } = scriptedPlatform([unavailable, { body: 1 }])
    expect(await platform.request('POST', '/v1/look', { isIdempotent: true })).toBe(1)
    expect(received).toHaveLength(2)
  })

  test('no request after a conflict', async () => {
    const conflict = { status: 409, headers: retrySoon, body: { error: 'x' } }
    const { platform, received } = scriptedPlatform(conflict)
    await getRejection(platform.groups.create(create))
    await getRejection(platform.groups.updateConfiguration('g', {}))
    await getRejection(platform.groups.delete('g'))
    expect(received).toHaveLength(3)
  })

  test('a delete, which succeeds if the first response was lost and the retry finds nothing', async () => {
    const notFound = { status: 404, body: { error: 'could not find database' } }
    const { platform, received } = scriptedPlatform([{ status: 502, headers: retrySoon }, notFound])
    expect(await platform.databases.delete('db')).toEqual({ deleted: true, raw: undefined })
    expect(received).toHaveLength(2)
    // it is an error if no earlier response was lost
    expect(isNotFound(await getRejection(platform.databases.delete('db')))).toBe(true)
    // or if the earlier attempt certainly did nothing
    const limited = scriptedPlatform([{ status: 429, headers: retrySoon }, notFound])
    expect(await getRejection(limited.platform.databases.delete('db'))).toMatchObject({ status: 404 })
  })

  test('the removal of a location, which succeeds if the first response was lost and the location is gone', async () => {
    const gone = { status: 400, body: { error: 'Invalid location code' } }
    const group = { status: 200, body: { group: { name: 'g', locations: ['ams'] } } }
    const { platform, received } = scriptedPlatform([{ status: 502, headers: retrySoon }, gone, group, gone])
    expect(await platform.groups.removeLocation('g', 'fra')).toEqual({ name: 'g', locations: ['ams'] })
    expect(received.map(({ method }) => method)).toEqual(['DELETE', 'DELETE', 'GET'])
    // it is an error if no earlier response was lost
    const rejection = await getRejection(platform.groups.removeLocation('g', 'fra'))
    expect(rejection).toMatchObject({ status: 400, outcome: 'not_applied' })
    // and for any other reason
    const primary = { status: 400, body: { error: 'the primary location cannot be removed' } }
    const rejected = scriptedPlatform([{ status: 502, headers: retrySoon }, primary])
    expect(await getRejection(rejected.platform.groups.removeLocation('g', 'ams'))).toMatchObject({
      status: 400,
      outcome: 'unknown',
    })
  })

  test('the outcome stays unknown, regardless of the last response', async () => {
    const { platform } = scriptedPlatform([
      { status: 502, headers: retrySoon },
      { status: 403, body: { error: 'no' } },
    ])
    expect(await getRejection(platform.groups.delete('g'))).toMatchObject({ status: 403, outcome: 'unknown' })
  })

  test('with missingOk, deleting a missing resource is not an error', async () => {
    const { platform } = scriptedPlatform(({ url }) => {
      if (url.includes('html')) return { status: 404, text: '<html>' }
      const error = url.includes('foreign') ? 'organization not found' : 'record not found'
      return { status: 404, body: { error } }
    })
    const missingOk = { missingOk: true }
    const notDeleted = { deleted: false, raw: undefined }
    expect(await platform.databases.delete('db', missingOk)).toEqual(notDeleted)
    expect(await platform.groups.delete('g', missingOk)).toEqual(notDeleted)
    expect(await platform.members.remove('ada', missingOk)).toEqual(notDeleted)
    expect(await platform.invites.delete('a@b', missingOk)).toEqual(notDeleted)
    expect(await platform.apiTokens.revoke('t', missingOk)).toEqual(notDeleted)
    await expect(platform.databases.delete('db')).rejects.toThrow('record not found')
    // the organization or the service is missing, not the database
    const foreign = platform.forOrganization('foreign')
    await expect(foreign.databases.delete('db', missingOk)).rejects.toThrow('organization')
    await expect(platform.databases.delete('html', missingOk)).rejects.toThrow('HTTP 404')
  })
})

describe('waits', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })

  const delaysAfter = async (response: ScriptedResponse): Promise<number[]> => {
    const delays: number[] = []
    const { platform } = scriptedPlatform(response, {
      maxRetries: 6,
      requestTimeoutMs: 1e9,
      observe: (event) => event.type === 'retry' && delays.push(event.delayMs),
    })
    const call = getRejection(platform.groups.list())
    const startedAt = performance.now()
    await vi.runAllTimersAsync()
    await call
    // the delays are not only reported: the call waits
    const waitedMs = performance.now() - startedAt
    expect(Math.abs(waitedMs - delays.reduce((sum, ms) => sum + ms, 0))).toBeLessThan(10)
    return delays
  }

  test('double from 0.5 s to 8 s, with random jitter', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(1)
    expect(await delaysAfter({ status: 503 })).toEqual([500, 1_000, 2_000, 4_000, 8_000, 8_000])
  })

  test.each([
    ['seconds', { 'retry-after': '3' }, 3_000],
    ['milliseconds', { 'retry-after-ms': '250', 'retry-after': '9' }, 250],
    [
      'a date relative to the clock of the service',
      { date: 'Sun, 01 Feb 2026 00:00:00 GMT', 'retry-after': 'Sun, 01 Feb 2026 00:00:07 GMT' },
      7_000,
    ],
  ])('follow the retry-after header, in %s', async (_, headers, delayMs) => {
    expect(await delaysAfter({ status: 429, headers })).toEqual([1, 2, 3, 4, 5, 6].map(() => delayMs))
  })

  test.each(['soon', '-5', ''])('ignore the retry-after header "%s"', async (text) => {
    vi.spyOn(Math, 'random').mockReturnValue(1)
    const [first] = await delaysAfter({ status: 429, headers: { 'retry-after': text } })
    expect(first).toBe(500)
  })

  test('are skipped if retry-after is more than a minute; the error contains the delay', async () => {
    const busy = { status: 429, headers: { 'retry-after': '61' } }
    const { platform, received } = scriptedPlatform(busy, { requestTimeoutMs: 1e9 })
    expect(await getRejection(platform.groups.list())).toMatchObject({ status: 429, retryAfterMs: 61_000 })
    expect(received).toHaveLength(1)
  })

  test('are skipped if they would exceed the timeout of the call', async () => {
    const busy = { status: 503, headers: { 'retry-after': '30' } }
    const { platform, received } = scriptedPlatform(busy, { requestTimeoutMs: 20_000 })
    expect(await getRejection(platform.groups.list())).toMatchObject({ status: 503, retryAfterMs: 30_000 })
    expect(received).toHaveLength(1)
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('timeouts and signals', () => {
  test('the timeout covers the token, the response and its body', async () => {
    const { platform } = scriptedPlatform({ hang: true }, { requestTimeoutMs: 40 })
    const error = await getRejection(platform.databases.createToken('db'))
    expect(error).toMatchObject({ code: 'TIMEOUT', status: null, outcome: 'unknown' })
    const noToken = createPlatformClient({ token: () => never, requestTimeoutMs: 40 })
    const noTokenError = await getRejection(noToken.users.current())
    expect(noTokenError).toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied' })
    const stalled = createPlatformClient({
      token: TOKEN,
      requestTimeoutMs: 40,
      fetch: async () => ({ status: 200, headers: new Headers(), text: () => never }),
    })
    expect(await getRejection(stalled.users.current())).toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
  })

  test('a call can have its own timeout', async () => {
    const { platform } = scriptedPlatform({ hang: true })
    await expect(platform.users.current({ timeoutMs: 30 })).rejects.toThrow('within 30 ms')
    await expect(platform.users.current({ timeoutMs: -1 })).rejects.toThrow(
      'timeoutMs must be a positive number',
    )
    await expect(platform.users.current({ timeout: 1 } as object)).rejects.toThrow('unknown option timeout')
    await expect(platform.users.current(null as never)).rejects.toThrow(
      'expected options { signal, timeoutMs }',
    )
  })

  test('with requestTimeoutMs: Infinity there is no time limit', async () => {
    const { platform } = scriptedPlatform(noGroups, { requestTimeoutMs: Infinity })
    expect(await platform.groups.list()).toEqual([])
  })

  test('a signal aborts the call before it is sent, during the response, and during the wait before a retry', async () => {
    const busy = { status: 429, headers: { 'retry-after': '20' } }
    const { platform, received } = scriptedPlatform(({ url }) =>
      url.includes('/groups') ? busy : { hang: true },
    )
    const abortedBefore = await getRejection(platform.users.current({ signal: AbortSignal.abort('why') }))
    expect(abortedBefore).toMatchObject({ code: 'ABORTED', cause: 'why', outcome: 'not_applied' })
    expect(received).toHaveLength(0)

    const controller = new AbortController()
    const call = getRejection(platform.databases.createToken('db', { signal: controller.signal }))
    await expect.poll(() => received).toHaveLength(1)
    controller.abort(new Error('enough'))
    expect(await call).toMatchObject({ code: 'ABORTED', outcome: 'unknown', cause: { message: 'enough' } })
    // also the request in flight
    expect(received[0]?.signal.aborted).toBe(true)

    const waitController = new AbortController()
    const { signal } = waitController
    const waitingCall = getRejection(platform.groups.create({ name: 'g', location: 'l' }, { signal }))
    await expect.poll(() => received).toHaveLength(2)
    await new Promise((resolve) => setTimeout(resolve, 30))
    waitController.abort()
    // the only attempt was rejected
    expect(await waitingCall).toMatchObject({ code: 'ABORTED', outcome: 'not_applied' })
    expect(received).toHaveLength(2)
  })

  test('a settled call leaves no listener and no timer', async () => {
    vi.useFakeTimers()
    const { signal } = new AbortController()
    const addListener = vi.spyOn(signal, 'addEventListener')
    const removeListener = vi.spyOn(signal, 'removeEventListener')
    const { platform } = scriptedPlatform([noGroups, { status: 403 }])
    await platform.groups.list({ signal })
    await getRejection(platform.groups.list({ signal }))
    for (const listeners of [addListener, removeListener]) expect(listeners).toHaveBeenCalledTimes(2)
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('requests and responses', () => {
  test('sends a user agent, the token and, only with a body, a content type', async () => {
    const headers = { 'X-Extra': 'yes', Authorization: 'Bearer other' }
    const config = { userAgent: 'deploy/1.2', headers }
    const { platform, received } = scriptedPlatform({ body: { group: { name: 'g' } } }, config)
    await platform.groups.get('g')
    await platform.groups.create({ name: 'g', location: 'l' })
    expect(received.map(({ headers }) => headers)).toMatchObject([
      { 'user-agent': 'deploy/1.2 batonsql-platform', authorization: `Bearer ${TOKEN}`, 'x-extra': 'yes' },
      { 'content-type': 'application/json' },
    ])
    expect(received[0]?.headers['content-type']).toBeUndefined()
    for (const headers of [new Headers({ 'X-Extra': 'a' }), [['x-extra', 'a'] as const]]) {
      const scripted = scriptedPlatform({ body: { exp: -1 } }, { headers })
      await scripted.platform.apiTokens.validate()
      expect(scripted.received[0]?.headers['x-extra']).toBe('a')
    }
  })

  test.each<[Partial<PlatformConfig>, string]>([
    [{ headers: { 'a b': '1' } }, 'the header a b contains invalid characters'],
    [{ headers: [['x-key', 'secret\n']] }, 'the header x-key contains invalid characters'],
    [{ headers: new Map([['x-key', 'sécret日']]) }, 'the header x-key contains invalid characters'],
    [{ headers: { 'x-key': 5 as never } }, 'the header x-key must be string, not a value of type number'],
    [{ userAgent: 'deploy\n' }, 'the header user-agent contains invalid characters'],
  ])('rejects headers that cannot be sent: %o', (config, message) => {
    expect(() => createPlatformClient({ token: TOKEN, ...config })).toThrow(new TypeError(message))
  })

  test('withResponse() returns the data and the response', async () => {
    const { platform } = scriptedPlatform([
      unavailable,
      { body: { groups: [] }, headers: { 'cf-ray': 'ray1', 'set-cookie': 'c=1' } },
    ])
    const { data, response } = await platform.groups.list().withResponse()
    expect(data).toEqual([])
    expect(response).toMatchObject({ status: 200, requestId: 'ray1', attempts: 2 })
    expect(response.headers).toMatchObject({ 'cf-ray': 'ray1' })
    expect(response.headers['set-cookie']).toBeUndefined()
    const { platform: rejecting } = scriptedPlatform({ status: 403 })
    // no rejection is left unhandled
    await expect(rejecting.groups.list().withResponse()).rejects.toThrow('HTTP 403')
  })

  test('request() sends the token, throws the same errors, and returns the JSON unchanged, or undefined for an empty body', async () => {
    const { platform, received } = scriptedPlatform([
      { body: { Some_Key: [1] } },
      {},
      { status: 404, body: { error: 'none' } },
      {},
    ])
    const options = { query: { q: 'x y' }, body: { a: 1 } }
    expect(await platform.request('POST', '/v9/new/a%2Fb', options)).toEqual({ Some_Key: [1] })
    expect(received[0]).toMatchObject({ method: 'POST', url: '/v9/new/a%2Fb?q=x+y', body: '{"a":1}' })
    expect(received[0]?.headers['authorization']).toBe(`Bearer ${TOKEN}`)
    expect(await platform.request('GET', '/v9/empty')).toBeUndefined()
    expect(isNotFound(await getRejection(platform.request('GET', '/v9/none')))).toBe(true)
    const form = new FormData()
    await platform.request('POST', '/v9/upload', { body: form })
    expect(received[3]?.body).toBe(form)
    expect(received[3]?.headers['content-type']).toBeUndefined()
    await expect(platform.request('POST', '/v1', { body: { count: 1n } })).rejects.toThrow(TypeError)
    await expect(platform.request('TRACE' as 'GET', '/v1')).rejects.toThrow('method must be one of')
    const misspelled = platform.request('GET', '/v1', { retry: 1 } as object)
    await expect(misspelled).rejects.toThrow('unknown option retry')
    const { length } = received
    const params = new URLSearchParams({ a: '1' })
    for (const body of [
      params,
      new Map([['a', 1]]),
      Promise.resolve({}),
      new Uint8Array(1),
      new Date(),
      null,
      'a',
    ])
      await expect(platform.request('POST', '/v1', { body: body as object })).rejects.toThrow(
        /^body must be a plain object, an array or FormData, not /,
      )
    for (const query of [params, new Map([['a', 1]]), ['a'], null, 'a=1'])
      await expect(platform.request('GET', '/v1', { query: query as never })).rejects.toThrow(
        /^query must be a plain object, not /,
      )
    expect(received).toHaveLength(length)
  })

  test('events report every attempt, and contain no token', async () => {
    const events: unknown[] = []
    vi.spyOn(Math, 'random').mockReturnValue(0)
    const { platform } = scriptedPlatform(
      [
        { status: 503, headers: { ...retrySoon, 'x-request-id': 'r1' }, body: { error: TOKEN } },
        { drop: true },
        noGroups,
      ],
      { observe: (event) => events.push(event) },
    )
    await platform.groups.list()
    const path = '/v1/organizations/acme/groups'
    expect(events).toMatchObject([
      { type: 'request:start', method: 'GET', path, attempt: 1 },
      { type: 'request', status: 503, requestId: 'r1', attempt: 1 },
      { type: 'retry', attempt: 1, delayMs: 1, error: { status: 503 } },
      { type: 'request:start', attempt: 2 },
      { type: 'request', status: null, requestId: null, attempt: 2 },
      { type: 'retry', attempt: 2, error: { code: 'NETWORK' } },
      { type: 'request:start', attempt: 3 },
      { type: 'request', status: 200, attempt: 3 },
    ])
    expect(inspect(events, { depth: 9, showHidden: true })).not.toContain(TOKEN)
  })

  test.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('observer')
      },
    ],
    ['rejects', () => Promise.reject(new Error('observer'))],
    ['rejects with an object without a prototype', () => Promise.reject(Object.create(null))],
  ])(
    'an observer that %s affects neither the call nor the process, and is reported once',
    async (_, fail) => {
      const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
      const observe = vi.fn(() => fail() as undefined)
      const { platform } = scriptedPlatform(noGroups, { observe })
      expect(await platform.groups.list()).toEqual([])
      expect(await platform.groups.list()).toEqual([])
      expect(observe).toHaveBeenCalledTimes(4)
      expect(warn.mock.calls).toEqual([
        [expect.stringMatching(/^observe failed: (?:Error: observer\n +at |\[object Object\]$)/)],
      ])
    },
  )
})

describe('over HTTP, with the global fetch', () => {
  test('does not follow a redirect, so that the token is sent to no other host', async () => {
    let visits = 0
    const { url: otherHost } = await serveHttp((_, response) => void response.end(`{"exp":${(visits += 1)}}`))
    const { url } = await serveHttp((_, response) => response.writeHead(307, { location: otherHost }).end())
    const platform = createPlatformClient({ token: TOKEN, url })
    expect(await getRejection(platform.apiTokens.validate())).toMatchObject({ status: 307 })
    expect(visits).toBe(0)
  })

  test('an abort closes the connection, and a truncated response is an error', async () => {
    const [received, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { url } = await serveHttp((request, response) => {
      if (request.url === '/v1/user') {
        request.socket.on('close', closed.resolve)
        received.resolve()
      } else response.writeHead(200, { 'content-length': '99' }).write('{', () => response.destroy())
    })
    const platform = createPlatformClient({ token: TOKEN, url, maxRetries: 0 })
    const controller = new AbortController()
    const call = getRejection(platform.users.current({ signal: controller.signal }))
    await received.promise
    controller.abort()
    expect(await call).toMatchObject({ code: 'ABORTED' })
    await closed.promise
    const truncated = await getRejection(platform.locations.list())
    expect(truncated).toMatchObject({ code: 'NETWORK', outcome: 'unknown' })
  })

  test('a call to a port on which no server listens is not applied', async () => {
    const server = await serveHttp(() => {})
    const { url } = server
    await server.close()
    const platform = createPlatformClient({ token: TOKEN, url, maxRetries: 0 })
    const error = await getRejection(platform.apiTokens.create({ name: 'ci' }))
    expect(error).toMatchObject({ code: 'NETWORK', outcome: 'not_applied' })
    expect(error.message).toContain('ECONNREFUSED')
  })
})
