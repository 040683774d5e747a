import { inspect } from 'node:util'
import { describe, expect, test, vi } from 'vitest'
import { ManualClock, settle } from '../../test-support/manual-clock.ts'
import {
  type PlatformAnswer,
  type PlatformScript,
  scriptedPlatform,
  TOKEN,
  unsignedJwt,
} from '../../test-support/scripted-platform.ts'
import * as api from './index.ts'
import { createPlatformClient, PlatformError } from './index.ts'

const databases = { body: { databases: [] } }
const failed = async (promise: Promise<unknown>): Promise<PlatformError> => {
  const error: unknown = await promise.then(
    () => 'it went well',
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(PlatformError)
  return error as PlatformError
}
/** Answers in turn; the last one again and again. */
const inTurn =
  (...answers: PlatformAnswer[]): PlatformScript =>
  (_, count) =>
    answers[Math.min(count, answers.length) - 1] as PlatformAnswer

describe('addresses', () => {
  test.each(['', '/', '/proxy', '/proxy/', '/a/b//'])('a base URL that ends with "%s"', async (end) => {
    const { url, received } = await scriptedPlatform(() => databases)
    const platform = createPlatformClient({ token: TOKEN, organization: 'acme', baseUrl: url + end })
    await platform.databases.list().page()
    const prefix = end.replace(/\/+$/, '')
    expect(received[0]?.url).toBe(`${prefix}/v1/organizations/acme/databases?limit=100`)
  })

  test('each part of a path is encoded', async () => {
    const { platform, received } = await scriptedPlatform(() => ({ status: 404, body: { error: 'none' } }))
    for (const name of ['a/../b', 'a b', '%2e%2e', 'ü', '?x=1', '#f', 'a\\b', '...', 'a;b'])
      await platform.databases.delete(name, { missingOk: true })
    expect(received.map(({ url }) => url.replace('/v1/organizations/acme/databases/', ''))).toEqual([
      'a%2F..%2Fb',
      'a%20b',
      '%252e%252e',
      '%C3%BC',
      '%3Fx%3D1',
      '%23f',
      'a%5Cb',
      '...',
      'a%3Bb',
    ])
  })

  test.each(['', '.', '..', '\ud800', 7, undefined, null])(
    'a name that cannot stand in a path: %j',
    async (name) => {
      const { platform, received } = await scriptedPlatform(() => databases)
      expect(() => platform.databases.get(name as string)).toThrow(TypeError)
      expect(() => platform.forOrganization(name as string).groups.list()).toThrow(TypeError)
      expect(received).toEqual([])
    },
  )

  test.each([
    ['v1/user', 'begin with "/"'],
    ['https://elsewhere.example/v1/user', 'begin with "/"'],
    ['//elsewhere.example/v1', 'cannot be ""'],
    ['/v1/../user', 'cannot be ".."'],
    ['/v1/%2e%2E/user', 'cannot be ".."'],
    ['/v1/./user', 'cannot be "."'],
    ['/v1/user?x=1', 'option query'],
    ['/v1/user#f', 'option query'],
    ['/v1/a\\b', 'must be encoded'],
    ['/v1/%zz', 'encodes nothing'],
  ])('request() refuses the path %s', async (path, words) => {
    const { platform, received } = await scriptedPlatform(() => databases)
    expect(() => platform.request('GET', path)).toThrow(words)
    expect(received).toEqual([])
  })

  test.each(['', 'api.example.com', 'ftp://host', 'https://a:b@host', 'https://host?x=1', 'https://host#f'])(
    'a base URL that is none: %j',
    (baseUrl) => {
      expect(() => createPlatformClient({ token: TOKEN, baseUrl })).toThrow(/baseUrl/)
    },
  )

  test('a call about an organization without one', () => {
    const platform = createPlatformClient({ token: TOKEN })
    expect(() => platform.groups.list()).toThrow('createPlatformClient({ organization')
    expect(() => platform.databases.list().page()).toThrow('createPlatformClient({ organization')
  })

  test('another organization', async () => {
    const { platform, received } = await scriptedPlatform(() => ({ body: { groups: [] } }))
    await platform.forOrganization('other').groups.list()
    await platform.groups.list()
    expect(received.map(({ url }) => url)).toEqual([
      '/v1/organizations/other/groups',
      '/v1/organizations/acme/groups',
    ])
  })
})

describe('errors', () => {
  test.each([
    [400, 'BadRequestError', api.BadRequestError],
    [401, 'UnauthorizedError', api.UnauthorizedError],
    [402, 'PaymentRequiredError', api.PaymentRequiredError],
    [403, 'ForbiddenError', api.ForbiddenError],
    [404, 'NotFoundError', api.NotFoundError],
    [405, 'PlatformError', api.PlatformError],
    [409, 'ConflictError', api.ConflictError],
    [422, 'UnprocessableError', api.UnprocessableError],
    [429, 'RateLimitError', api.RateLimitError],
    [500, 'ServerError', api.ServerError],
    [504, 'ServerError', api.ServerError],
  ] as const)('HTTP %d is a %s', async (status, name, Class) => {
    const { platform } = await scriptedPlatform(
      () => ({
        status,
        headers: { 'x-request-id': 'r1' },
        body: { error: 'these words', code: 'this_code', more: 1 },
      }),
      { maxRetries: 0 },
    )
    const error = await failed(platform.groups.get('g'))
    expect(error).toBeInstanceOf(Class)
    expect(error).toMatchObject({
      name,
      status,
      code: 'this_code',
      reason: 'these words',
      requestId: 'r1',
      method: 'GET',
      path: '/v1/organizations/acme/groups/g',
      outcome: status < 500 ? 'not_applied' : 'unknown',
      body: '{"error":"these words","code":"this_code","more":1}',
    })
    expect(error.headers['content-type']).toBe('application/json')
    expect(error.message).toMatch(`GET /v1/organizations/acme/groups/g answered HTTP ${status}: these words`)
  })

  test.each([
    ['HTML', '<html><body>Bad gateway</body></html>', null, /answered HTTP 400$/],
    ['nothing', '', null, /answered HTTP 400$/],
    ['text', 'slow down', null, /answered HTTP 400: slow down$/],
    ['an error that is an object', '{"error":{"why":1}}', '{"why":1}', /answered HTTP 400: {"why":1}$/],
    ['JSON without an error', '[1]', null, /answered HTTP 400: \[1\]$/],
  ])('a refusal that is %s', async (_, text, reason, words) => {
    const { platform } = await scriptedPlatform(() => ({ status: 400, text }))
    const error = await failed(platform.users.current())
    expect(error).toMatchObject({ status: 400, reason, code: null, body: text })
    expect(error.message).toMatch(words)
  })

  test('what is one already', async () => {
    const isAlready = async (answer: PlatformAnswer): Promise<boolean> => {
      const { platform } = await scriptedPlatform(() => answer)
      return api.isAlreadyExists(await failed(platform.groups.create({ name: 'g', location: 'l' })))
    }
    expect(await isAlready({ status: 409, body: { error: 'group already exists' } })).toBe(true)
    expect(await isAlready({ status: 400, body: { error: 'database with same name already exists' } })).toBe(
      true,
    )
    expect(await isAlready({ status: 400, body: { error: 'group not found' } })).toBe(false)
    expect(api.isAlreadyExists(new Error('already exists'))).toBe(false)
  })

  test.each([
    ['a body that is not JSON', { text: '<html>' }, /is not JSON but 6 characters of application\/json/],
    ['an empty body', { text: '' }, /has no list "groups"/],
    ['no list', { body: {} }, /has no list "groups"/],
    ['null for a list', { body: { groups: null } }, /has no list "groups"/],
    ['an item that is no object', { body: { groups: ['g'] } }, /that is not an object/],
  ])('an answer that went well with %s', async (_, answer, words) => {
    const { platform } = await scriptedPlatform(() => answer)
    const error = await failed(platform.groups.list())
    expect(error).toBeInstanceOf(api.DecodeError)
    expect(error).toMatchObject({ status: 200, code: 'DECODE', body: null })
    expect(error.message).toMatch(words)
  })

  test('an object without what makes it one', async () => {
    const { platform } = await scriptedPlatform(() => ({ body: { message: 'ok' } }))
    await expect(platform.databases.get('db')).rejects.toThrow('has no object "database" with "hostname"')
    await expect(platform.databases.createToken('db')).rejects.toThrow('has no text "jwt"')
    await expect(platform.locations.list()).rejects.toThrow('has no object "locations"')
    await expect(platform.apiTokens.validate()).rejects.toThrow('has no number "exp"')
  })

  test('the token is in no error, whatever the answer says', async () => {
    const jwt = unsignedJwt({ a: 'rw' })
    const answers: PlatformAnswer[] = [
      {
        status: 401,
        body: { error: `the token ${TOKEN} is not valid` },
        headers: { 'x-was': `Bearer ${TOKEN}` },
      },
      { status: 500, text: `<p>${TOKEN} ${jwt}</p>` },
      { status: 200, text: `{"jwt": "${jwt}"` },
      { drop: true },
    ]
    const { platform } = await scriptedPlatform(inTurn(...answers), { maxRetries: 0 })
    for (const _ of answers) {
      const error = await failed(platform.databases.createToken('db'))
      const shown = [
        inspect(error, { depth: 9, showHidden: true }),
        error.body,
        JSON.stringify(error.headers),
      ]
      for (const secret of [TOKEN, jwt]) expect(shown.join()).not.toContain(secret)
    }
    const fetch = (): never => {
      throw Object.assign(new TypeError(`Bearer ${TOKEN} is not a header`), {
        headers: { authorization: TOKEN },
      })
    }
    const error = await failed(createPlatformClient({ token: TOKEN, fetch, maxRetries: 0 }).users.current())
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(TOKEN)
    expect(error.message).toContain('[token] is not a header')
  })
})

describe('tokens', () => {
  test.each([
    [undefined, /environment variable/],
    [7, /token must be string or function/],
    ['', /token is empty/],
    ['a b', /characters that no token has/],
    ['a\nb', /characters that no token has/],
    [unsignedJwt({ a: 'rw', id: 'x' }), /token is a database token/],
    [unsignedJwt({ gid: 'x' }), /token is a database token/],
  ])('one that cannot be: %j', (token, words) => {
    expect(() => createPlatformClient({ token: token as string })).toThrow(words)
    expect(() => createPlatformClient({ token: token as string })).toThrow(TypeError)
  })

  test('a JWT with an id of its own is none of a database', () => {
    expect(() => createPlatformClient({ token: unsignedJwt({ jti: '1', id: 'x' }) })).not.toThrow()
  })

  test('a function is asked before every attempt, and checked', async () => {
    let asked = 0
    const { platform, received } = await scriptedPlatform(
      inTurn({ status: 503, headers: { 'retry-after-ms': '1' } }, { body: { groups: [] } }),
      { token: async () => `t${(asked += 1)}` },
    )
    await platform.groups.list()
    expect(received.map(({ headers }) => headers.authorization)).toEqual(['Bearer t1', 'Bearer t2'])

    const bad = createPlatformClient({ token: () => unsignedJwt({ a: 'ro' }), organization: 'acme' })
    await expect(bad.groups.list()).rejects.toThrow('token is a database token')
    const broken = createPlatformClient({ token: () => Promise.reject(new Error('vault is sealed')) })
    await expect(broken.users.current()).rejects.toThrow('vault is sealed')
  })

  test('a 401 that means a database token says so', async () => {
    const { platform } = await scriptedPlatform(() => ({
      status: 401,
      body: { error: 'could not parse jwt id' },
    }))
    await expect(platform.users.current()).rejects.toThrow('the token is one of a database')
  })
})

describe('repetition', () => {
  const soon = { 'retry-after-ms': '1' }
  const create = { name: 'g', location: 'l' }
  const group = { body: { group: { name: 'g' } } }

  test.each([408, 429, 502, 503, 504])('a read after HTTP %d', async (status) => {
    const { platform, received } = await scriptedPlatform(
      inTurn({ status, headers: soon }, { status, headers: soon }, { body: { groups: [] } }),
    )
    expect(await platform.groups.list()).toEqual([])
    expect(received).toHaveLength(3)
  })

  test.each([400, 401, 403, 404, 409, 410, 422, 500, 501])('not a read after HTTP %d', async (status) => {
    const { platform, received } = await scriptedPlatform(() => ({ status, headers: soon }))
    await failed(platform.groups.list())
    expect(received).toHaveLength(1)
  })

  test('no more than told', async () => {
    const { platform, received } = await scriptedPlatform(() => ({ status: 503, headers: soon }), {
      maxRetries: 3,
    })
    await failed(platform.groups.list())
    expect(received).toHaveLength(4)
  })

  test('a read, a setting and a delete after a lost connection', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0)
    const { platform, received } = await scriptedPlatform((_, count) =>
      count % 2 ? { drop: true } : { body: { groups: [], delete_protection: true } },
    )
    await platform.groups.list()
    await platform.groups.updateConfiguration('g', { deleteProtection: true })
    await platform.databases.updateConfiguration('d', { blockReads: true })
    await platform.groups.delete('g')
    expect(received.map(({ method }) => method).join()).toBe('GET,GET,PATCH,PATCH,PATCH,PATCH,DELETE,DELETE')
    vi.restoreAllMocks()
  })

  test.each([
    ['a lost connection', { drop: true }],
    ['HTTP 503', { status: 503, headers: soon }],
    ['HTTP 408', { status: 408, headers: soon }],
  ])('never what makes something, a mint or a rotation, after %s', async (_, answer) => {
    const { platform, received } = await scriptedPlatform(() => answer)
    const calls = [
      () => platform.groups.create(create),
      () => platform.databases.createToken('db'),
      () => platform.groups.createToken('g'),
      () => platform.databases.rotateTokens('db'),
      () => platform.groups.rotateTokens('g'),
      () => platform.apiTokens.create('ci'),
      () => platform.members.updateRole('ada', 'admin'),
    ]
    for (const call of calls) expect(await failed(call())).toMatchObject({ outcome: 'unknown' })
    expect(received).toHaveLength(calls.length)
  })

  test('what makes something after 429, and when no connection was made', async () => {
    const { platform, received, url } = await scriptedPlatform(inTurn({ status: 429, headers: soon }, group))
    expect(await platform.groups.create(create)).toMatchObject({ name: 'g' })
    expect(received).toHaveLength(2)

    let tries = 0
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    vi.spyOn(Math, 'random').mockReturnValue(0)
    const late = createPlatformClient({
      token: TOKEN,
      organization: 'acme',
      baseUrl: url,
      fetch: async (...args) => {
        if ((tries += 1) < 3) throw new TypeError('fetch failed', { cause: refused })
        return await fetch(...args)
      },
    })
    expect(await late.groups.create(create)).toMatchObject({ name: 'g' })
    expect(tries).toBe(3)
    tries = -9
    expect(await failed(late.groups.create(create))).toMatchObject({
      code: 'NETWORK',
      outcome: 'not_applied',
    })
    vi.restoreAllMocks()
  })

  test('never a conflict', async () => {
    const { platform, received } = await scriptedPlatform(() => ({
      status: 409,
      headers: soon,
      body: { error: 'x' },
    }))
    await failed(platform.groups.create(create))
    await failed(platform.groups.updateConfiguration('g', {}))
    await failed(platform.groups.delete('g'))
    expect(received).toHaveLength(3)
  })

  test('a delete whose answer was lost, and that finds nothing afterwards, is done', async () => {
    const gone = { status: 404, body: { error: 'could not find database' } }
    const { platform, received } = await scriptedPlatform(inTurn({ status: 502, headers: soon }, gone))
    expect(await platform.databases.delete('db')).toEqual({ deleted: true, raw: undefined })
    expect(received).toHaveLength(2)
    // without a doubt about the first one it is an error
    const error = await failed(platform.databases.delete('db'))
    expect(error).toBeInstanceOf(api.NotFoundError)
    // and what was not done for certain leaves no doubt
    const limited = await scriptedPlatform(inTurn({ status: 429, headers: soon }, gone))
    expect(await failed(limited.platform.databases.delete('db'))).toMatchObject({ status: 404 })
  })

  test('a doubt stays, whatever the last attempt says', async () => {
    const { platform } = await scriptedPlatform(
      inTurn({ status: 502, headers: soon }, { status: 403, body: { error: 'no' } }),
    )
    expect(await failed(platform.groups.delete('g'))).toMatchObject({ status: 403, outcome: 'unknown' })
  })

  test('nothing to delete, where that is no error', async () => {
    const { platform } = await scriptedPlatform(({ url }) =>
      url.includes('html')
        ? { status: 404, text: '<html>' }
        : {
            status: 404,
            body: { error: url.includes('foreign') ? 'organization not found' : 'record not found' },
          },
    )
    const missingOk = { missingOk: true }
    const none = { deleted: false, raw: undefined }
    expect(await platform.databases.delete('db', missingOk)).toEqual(none)
    expect(await platform.groups.delete('g', missingOk)).toEqual(none)
    expect(await platform.members.remove('ada', missingOk)).toEqual(none)
    expect(await platform.invites.delete('a@b', missingOk)).toEqual(none)
    expect(await platform.apiTokens.revoke('t', missingOk)).toEqual(none)
    await expect(platform.databases.delete('db')).rejects.toThrow('record not found')
    // not the database is missing, but the organization, or the service
    await expect(platform.forOrganization('foreign').databases.delete('db', missingOk)).rejects.toThrow(
      'organization',
    )
    await expect(platform.databases.delete('html', missingOk)).rejects.toThrow('HTTP 404')
  })
})

describe('waits', () => {
  const waitsFor = async (answer: PlatformAnswer): Promise<number[]> => {
    const delays: number[] = []
    const clock = new ManualClock()
    const { platform } = await scriptedPlatform(
      () => answer,
      { maxRetries: 6, timeoutMs: 1e9, onRetry: ({ delayMs }) => delays.push(delayMs) },
      clock,
    )
    const state = { isOver: false }
    const call = failed(platform.groups.list()).finally(() => (state.isOver = true))
    for (let tries = 0; !state.isOver && tries < 500; tries++) {
      await clock.advance(60_000)
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    await call
    return delays
  }

  test('double from 0.5 s to 8 s, of which each takes a random part', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(1)
    expect(await waitsFor({ status: 503 })).toEqual([500, 1_000, 2_000, 4_000, 8_000, 8_000])
    vi.restoreAllMocks()
  })

  test.each([
    ['seconds', { 'retry-after': '3' }, 3_000],
    ['milliseconds', { 'retry-after-ms': '250', 'retry-after': '9' }, 250],
    [
      'a date, by the clock of the service',
      { date: 'Sun, 01 Feb 2026 00:00:00 GMT', 'retry-after': 'Sun, 01 Feb 2026 00:00:07 GMT' },
      7_000,
    ],
  ])('are what the service asks for, in %s', async (_, headers, delayMs) => {
    expect(await waitsFor({ status: 429, headers })).toEqual([1, 2, 3, 4, 5, 6].map(() => delayMs))
  })

  test('are not begun when the service asks for more than a minute: the caller hears of it', async () => {
    const { platform, received } = await scriptedPlatform(() => ({
      status: 429,
      headers: { 'retry-after': '61' },
    }))
    expect(await failed(platform.groups.list())).toMatchObject({ status: 429, retryAfterMs: 61_000 })
    expect(received).toHaveLength(1)
  })

  test('are not begun when they end after the time of the call', async () => {
    const { platform, received } = await scriptedPlatform(
      () => ({ status: 503, headers: { 'retry-after': '30' } }),
      {
        timeoutMs: 20_000,
      },
    )
    expect(await failed(platform.groups.list())).toMatchObject({ status: 503, retryAfterMs: 30_000 })
    expect(received).toHaveLength(1)
  })
})

describe('time and signals', () => {
  test('the time covers the token, the answer and its body', async () => {
    const { platform, url } = await scriptedPlatform(() => ({ hang: true }), { timeoutMs: 40 })
    expect(await failed(platform.databases.createToken('db'))).toMatchObject({
      name: 'TimeoutError',
      code: 'TIMEOUT',
      status: null,
      outcome: 'unknown',
    })
    const noToken = createPlatformClient({ token: () => new Promise(() => {}), baseUrl: url, timeoutMs: 40 })
    expect(await failed(noToken.users.current())).toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied' })
    const halfBody = createPlatformClient({
      token: TOKEN,
      timeoutMs: 40,
      fetch: async () => ({ status: 200, headers: new Headers(), text: () => new Promise(() => {}) }),
    })
    expect(await failed(halfBody.users.current())).toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
  })

  test('a call may have a time of its own', async () => {
    const { platform } = await scriptedPlatform(() => ({ hang: true }))
    await expect(platform.users.current({ timeoutMs: 30 })).rejects.toThrow('within 30 ms')
    expect(() => platform.users.current({ timeoutMs: -1 }).catch(() => {})).not.toThrow()
    await expect(platform.users.current({ timeoutMs: -1 })).rejects.toThrow(TypeError)
    await expect(platform.users.current({ timeout: 1 } as object)).rejects.toThrow('unknown option timeout')
  })

  test('a signal ends the call before, in the answer, and in the wait before another attempt', async () => {
    const { platform, received } = await scriptedPlatform(({ url }) =>
      url.includes('/groups') ? { status: 503, headers: { 'retry-after': '20' } } : { hang: true },
    )
    const before = await failed(platform.users.current({ signal: AbortSignal.abort('why') }))
    expect(before).toMatchObject({
      name: 'AbortedError',
      cause: 'why',
      outcome: 'not_applied',
      code: 'ABORTED',
    })
    expect(received).toHaveLength(0)

    const during = new AbortController()
    const call = failed(platform.databases.createToken('db', { signal: during.signal }))
    while (received.length < 1) await settle()
    during.abort(new Error('enough'))
    expect(await call).toMatchObject({
      name: 'AbortedError',
      outcome: 'unknown',
      cause: { message: 'enough' },
    })

    const waiting = new AbortController()
    const slow = failed(platform.groups.list({ signal: waiting.signal }))
    while (received.length < 2) await settle()
    await new Promise((resolve) => setTimeout(resolve, 30))
    waiting.abort()
    expect(await slow).toMatchObject({ name: 'AbortedError' })
    expect(received).toHaveLength(2)
  })

  test('what is given up is dropped', async () => {
    const { promise: aborted, resolve } = Promise.withResolvers<unknown>()
    const platform = createPlatformClient({
      token: TOKEN,
      timeoutMs: 20,
      fetch: (_, { signal }) => {
        signal.addEventListener('abort', resolve)
        return new Promise(() => {})
      },
    })
    await failed(platform.users.current())
    await aborted
  })
})

describe('what leaves and what comes', () => {
  test('headers: the program, the token, and a type only for a body', async () => {
    const { platform, received } = await scriptedPlatform(() => ({ body: { group: { name: 'g' } } }), {
      userAgent: 'deploy/1.2',
      headers: { 'X-Extra': 'yes', Authorization: 'Bearer other' },
    })
    await platform.groups.get('g')
    await platform.groups.create({ name: 'g', location: 'l' })
    expect(received.map(({ headers }) => headers)).toMatchObject([
      { 'user-agent': 'deploy/1.2 batonsql-platform', authorization: `Bearer ${TOKEN}`, 'x-extra': 'yes' },
      { 'content-type': 'application/json' },
    ])
    expect(received[0]?.headers['content-type']).toBeUndefined()
  })

  test('a redirect is not followed', async () => {
    const elsewhere = await scriptedPlatform(() => databases)
    const { platform } = await scriptedPlatform(() => ({ status: 307, headers: { location: elsewhere.url } }))
    expect(await failed(platform.users.current())).toMatchObject({ status: 307 })
    expect(elsewhere.received).toEqual([])
  })

  test('the answer of a call that went well', async () => {
    const { platform } = await scriptedPlatform(
      inTurn(
        { status: 503, headers: { 'retry-after-ms': '1' } },
        { body: { groups: [] }, headers: { 'cf-ray': 'ray1' } },
      ),
    )
    const { data, response } = await platform.groups.list().withResponse()
    expect(data).toEqual([])
    expect(response).toMatchObject({ status: 200, requestId: 'ray1', attempts: 2 })
    expect(response.headers['cf-ray']).toBe('ray1')
    const { platform: refusing } = await scriptedPlatform(() => ({ status: 403 }))
    // and nothing is rejected that nobody hears of
    await expect(refusing.groups.list().withResponse()).rejects.toThrow(api.ForbiddenError)
  })

  test('request() is one of the calls: token, errors, JSON as it came, nothing for nothing', async () => {
    const { platform, received } = await scriptedPlatform(
      inTurn({ body: { Some_Key: [1] } }, {}, { status: 404, body: { error: 'none' } }),
    )
    expect(await platform.request('POST', '/v9/new/a%2Fb', { query: { q: 'x y' }, body: { a: 1 } })).toEqual({
      Some_Key: [1],
    })
    expect(received[0]).toMatchObject({ method: 'POST', url: '/v9/new/a%2Fb?q=x+y', body: '{"a":1}' })
    expect(await platform.request('GET', '/v9/empty')).toBeUndefined()
    await expect(platform.request('GET', '/v9/none')).rejects.toThrow(api.NotFoundError)
    expect(() => platform.request('TRACE' as 'GET', '/v1')).toThrow('method must be one of')
    expect(() => platform.request('GET', '/v1', { retry: 1 } as object)).toThrow('unknown option retry')
  })

  test('hooks hear of every attempt, and hold no token', async () => {
    const events: unknown[] = []
    const note = (name: string) => (event: object) => events.push([name, event])
    const { platform } = await scriptedPlatform(
      inTurn(
        { status: 503, headers: { 'retry-after-ms': '1', 'x-request-id': 'r1' }, body: { error: TOKEN } },
        { drop: true },
        { body: { groups: [] } },
      ),
      { onRequest: note('request'), onResponse: note('response'), onRetry: note('retry') },
    )
    vi.spyOn(Math, 'random').mockReturnValue(0)
    await platform.groups.list()
    vi.restoreAllMocks()
    const path = '/v1/organizations/acme/groups'
    expect(events).toMatchObject([
      ['request', { method: 'GET', path, attempt: 1 }],
      ['response', { status: 503, requestId: 'r1', attempt: 1 }],
      ['retry', { attempt: 1, delayMs: 1, error: { status: 503 } }],
      ['request', { attempt: 2 }],
      ['response', { status: null, requestId: null, attempt: 2 }],
      ['retry', { attempt: 2, error: { code: 'NETWORK' } }],
      ['request', { attempt: 3 }],
      ['response', { status: 200, attempt: 3 }],
    ])
    expect(inspect(events, { depth: 9, showHidden: true })).not.toContain(TOKEN)
  })
})
