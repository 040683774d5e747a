import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { createClient } from './client/client.ts'
import { followBaseUrl, resolveConfig } from './config.ts'

test.each([
  ['https://db.example.com', 'https://db.example.com', ''],
  ['https://db.example.com/', 'https://db.example.com', ''],
  ['libsql://db.example.com', 'https://db.example.com', ''],
  ['LIBSQL://DB.example.com', 'https://db.example.com', ''],
  ['libsql://127.0.0.1:8080?tls=0', 'http://127.0.0.1:8080', ''],
  ['turso://db.example.com', 'https://db.example.com', ''],
  ['TURSO://127.0.0.1:8080/base?tls=0', 'http://127.0.0.1:8080', '/base'],
  ['libsql://db.example.com:443?tls=0', 'http://db.example.com:443', ''],
  ['libsql://db.example.com?tls=1', 'https://db.example.com', ''],
  ['http://localhost:8080', 'http://localhost:8080', ''],
  ['http://localhost:443', 'http://localhost:443', ''],
  ['http://localhost:8080/a/b/', 'http://localhost:8080', '/a/b'],
  ['http://localhost:8080/a/b', 'http://localhost:8080', '/a/b'],
  ['http://[::1]:8080', 'http://[::1]:8080', ''],
])('%s', (url, origin, basePath) => {
  expect(resolveConfig({ url }).address).toEqual({ origin, basePath })
  expect(resolveConfig({ url: url.startsWith('http') ? new URL(url) : url }).address).toEqual({
    origin,
    basePath,
  })
})

test.each(['"secret"', "secret'", 'secret\n', ' secret'])(
  'the token %j is rejected with the reason',
  (authToken) => {
    expect(() => createClient({ url: 'http://h', authToken })).toThrow(
      /^authToken begins or ends with (a quote|a space)/,
    )
  },
)

test('the token may be in the URL; the option overrides it', () => {
  expect(resolveConfig({ url: 'libsql://h?authToken=abc' }).authToken).toBe('abc')
  expect(resolveConfig({ url: 'libsql://h?authToken=abc', authToken: 'def' }).authToken).toBe('def')
})

test.each([
  ['file:local.db', /use npx @batonsql\/cli dev/],
  [':memory:', /use npx @batonsql\/cli dev/],
  ['ws://localhost:8080', /use http:/],
  ['wss://localhost:8080', /use http:/],
  ['localhost:8080', /did you mean http:\/\/localhost:8080\?$/],
  ['db.example.org:8080/path?authToken=secret', /did you mean http:\/\/db\.example\.org:8080\/path\?$/],
  ['http://localhost:99999', /port above 65535: "http:\/\/localhost:99999"/],
  ['user:secret@localhost:8080', /not "…@localhost:8080"/],
  ['https://secret:secret@h:99999', /"…@h:99999"/],
  ['file:local.db?authToken=secret', /not "file:local.db"/],
  // a token in the wrong environment variable
  ['eyJhbGciOiJFZERTQSJ9.secret.secret', /not text without a scheme/],
  ['', /url is empty: is its environment variable set/],
  ['https://', /https:\/\//],
  ['https://user:secret@h', /user name/],
  ['libsql://:secret@h', /password/],
  ['https://h#x', /fragment/],
  ['https://h?tls=0', /tls/],
  ['http://h?tls=1', /tls/],
  ['libsql://h?tls=2', /tls/],
  ['turso://h?tls=2', /tls/],
  ['https://h?tls=0', /tls/],
  ['tursodb://h', /url must be/],
  ['"libsql://h"', /^url begins or ends with a quote: remove it where it is set$/],
  ["'http://h", /^url begins or ends with a quote/],
  ['http://h\n', /^url begins or ends with a space or a line break: remove it where it is set$/],
  [' http://h', /^url begins or ends with a space/],
  ['http://h\r', /^url begins or ends with a space or a line break/],
  ['libsql://h?authtoken=secret', /authtoken/],
])('rejects the URL %s with an error that states the remedy', (url, message) => {
  const thrown = (() => {
    try {
      return createClient({ url })
    } catch (error) {
      return error as Error
    }
  })()
  expect(thrown).toBeInstanceOf(TypeError)
  expect((thrown as Error).message).toMatch(message)
  expect((thrown as Error).message).not.toContain('secret')
})

test.each([
  [{ syncUrl: 'libsql://h' }, /syncUrl.*the options are url/],
  [{ timeout: 5 }, /unknown option timeout/],
  [{ timeout: 5 }, /requestTimeoutMs/],
  [{ constructor: 5 }, /unknown option constructor/],
  [{ url: undefined }, /url is undefined: is its environment variable set/],
  [{ url: 5 }, /url must be string or object, not a value of type number/],
  [{ authToken: 5 }, /authToken must be string or function, not a value of type number/],
  [{ authToken: null }, /authToken must be string or function, not null/],
  [{ headers: null }, /headers must be object, not null/],
  [{ headers: 'authorization: secret' }, /headers must be object, not a value of type string/],
  [{ headers: { 'x-key': undefined } }, /^the header x-key must be string, not undefined$/],
  [{ headers: [['x-key']] }, /^the header x-key must be string, not undefined$/],
  [{ headers: { 'x-key': 'secret\n' } }, /^the header x-key contains invalid characters$/],
  [{ headers: { 'x-key': 'sécret€' } }, /^the header x-key contains invalid characters$/],
  [{ headers: { 'x-key:': 'secret' } }, /^the header x-key: contains invalid characters$/],
  [{ allowedHosts: null }, /allowedHosts/],
  [{ allowedHosts: {} }, /allowedHosts must be an array of strings, not a value of type Object/],
  [
    { allowedHosts: [new URL('https://h')] },
    /allowedHosts must be an array of strings, not a value of type Array/,
  ],
  [{ minReplicationIndex: 'x' }, /whole number, not "x"/],
  [
    { requestTimeoutMs: '5' },
    /requestTimeoutMs must be a positive number of milliseconds below 2\^31, or Infinity, not a value of type string/,
  ],
  [{ transactionTimeoutMs: -1 }, /transactionTimeoutMs must be a positive .* not -1/],
  [{ intMode: 'float' }, /intMode must be 'auto' or .*not 'float'/],
  [{ requestTimeoutMs: 0 }, /requestTimeoutMs/],
  [{ requestTimeoutMs: -1 }, /requestTimeoutMs/],
  [{ requestTimeoutMs: Number.NaN }, /requestTimeoutMs/],
  [{ requestTimeoutMs: 2 ** 31 }, /requestTimeoutMs/],
  [{ authToken: 5 }, /authToken/],
  [{ fetch: {} }, /fetch/],
  [{ concurrency: 0 }, /concurrency/],
  [{ concurrency: 1.5 }, /concurrency/],
  [{ maxRetries: Number.NaN }, /maxRetries must be an integer >= 0/],
  [{ maxRetries: -1 }, /maxRetries/],
  [{ maxRetries: 0.5 }, /maxRetries/],
])('rejects the option %o', (options, message) => {
  expect(() => createClient({ url: 'http://h', ...options } as never)).toThrow(message)
})

test.each([[undefined], [null], ['http://h?authToken=secret'], [5]])(
  'rejects the configuration %o',
  (config) => {
    expect(() => createClient(config as never)).toThrow(
      /expected options \{ url, authToken, .* \}, not (?!.*secret)/,
    )
  },
)

test('a header may contain spaces, quotes and characters of Latin-1', () => {
  const headers = { 'x-a': '"é", b\t', 'x-b': '' }
  expect(resolveConfig({ url: 'http://h', headers }).headers).toEqual(headers)
})

test('headers may be an object, Headers, or pairs', () => {
  for (const headers of [
    { 'X-A': '1' },
    new Headers({ 'X-A': '1' }),
    new Map([['X-A', '1']]),
    [['X-A', '1'] as const],
  ])
    expect(resolveConfig({ url: 'http://h', headers }).headers).toEqual({ 'x-a': '1' })
})

test('maxRetries may be 0', () => {
  expect(resolveConfig({ url: 'http://h', maxRetries: 0 }).maxRetries).toBe(0)
})

test('rejects a bare URL with an error that states what to pass instead', () => {
  expect(() => createClient('http://h' as never)).toThrow('{ url')
})

test('a namespace is sent in base64 without padding', () => {
  expect(resolveConfig({ url: 'http://h', namespace: 'foo-é' }).headers).toEqual({
    'x-namespace-bin': 'Zm9vLcOp',
  })
})

test('an empty namespace, as of an unset variable, is sent: the request must not reach another database', () => {
  expect(resolveConfig({ url: 'http://h', namespace: '' }).headers).toEqual({ 'x-namespace-bin': '' })
})

test('later changes to the configuration object have no effect', () => {
  const headers = { 'x-a': '1' }
  const resolved = resolveConfig({ url: 'http://h', headers })
  headers['x-a'] = '2'
  expect(resolved.headers).toEqual({ 'x-a': '1' })
})

test('printing a client shows no secrets', () => {
  const db = createClient({ url: 'https://h?authToken=hunter2', headers: { 'x-key': 'hunter3' } })
  expect(inspect(db, { depth: 10, showHidden: true })).not.toMatch(/hunter/)
  expect(JSON.stringify(db)).not.toMatch(/hunter/)
})

test('follows a base_url only with the same scheme and to allowed hosts', () => {
  const config = resolveConfig({
    url: 'https://db.example.com',
    allowedHosts: ['eu.example.com:8080', '*.near.example.com'],
  })
  const follow = (baseUrl: string) => followBaseUrl(baseUrl, config)?.origin ?? null
  expect(follow('https://db.example.com/x')).toBe('https://db.example.com')
  expect(followBaseUrl('https://db.example.com/x', config)?.basePath).toBe('/x')
  expect(follow('https://eu.example.com:8080')).toBe('https://eu.example.com:8080')
  expect(follow('https://a.near.example.com')).toBe('https://a.near.example.com')
  expect(follow('https://near.example.com')).toBeNull()
  expect(follow('https://evilnear.example.com')).toBeNull()
  expect(follow('http://db.example.com')).toBeNull()
  expect(follow('https://eu.example.com')).toBeNull()
  expect(follow('https://example.org')).toBeNull()
  expect(follow('not a url')).toBeNull()
})

test('compares the hosts of a base_url as addresses, not as text', () => {
  const allowedHosts = [
    'EU.Example.com',
    'us.example.com:443',
    '*.Near.example.com:443',
    'bücher.example',
    '',
    'a b',
  ]
  const config = resolveConfig({ url: 'https://db.example.com', allowedHosts })
  const follow = (baseUrl: string) => followBaseUrl(baseUrl, config)?.origin ?? null
  for (const host of ['eu.example.com', 'us.example.com', 'a.near.example.com', 'xn--bcher-kva.example'])
    expect(follow(`https://${host.toUpperCase()}:443/`)).toBe(`https://${host}`)
  expect(follow('https://eu.example.com:8443')).toBeNull()
  expect(follow('https://a.near.example.com:8443')).toBeNull()
})
