import { type Client, createClient } from '@batonsql/core'
import { type OpenTelemetryOptions, observeWithOpenTelemetry } from '@batonsql/core/opentelemetry'
import { startLocalServer } from '@batonsql/local-server'
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { executed, respond, scripted } from '../../../packages/core/test-support/scripted-server.ts'

const SECRET = 'a secret argument'
const spans = new InMemorySpanExporter()
const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] })
const tracer = tracerProvider.getTracer('test')
const server = await startLocalServer()
const { url } = server
const port = Number(new URL(url).port)

beforeAll(() => context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()))
afterAll(async () => {
  context.disable()
  await server.close()
})
beforeEach(() => spans.reset())

const findSpans = (name: string): ReadableSpan[] =>
  spans.getFinishedSpans().filter((span) => span.name === name)
const findSpan = (name: string): ReadableSpan => {
  const matching = findSpans(name)
  expect([name, matching.length]).toEqual([name, 1])
  return matching[0] as ReadableSpan
}

async function connect({
  address = url,
  namespace = 'shop',
  queryText = true,
}: {
  address?: string | null
  namespace?: string
  queryText?: boolean
} = {}): Promise<Client> {
  const observe = observeWithOpenTelemetry({
    tracerProvider,
    queryText,
    namespace,
    ...(address !== null && { url: address }),
  })
  const db = createClient({ url, observe })
  onTestFinished(() => db.close())
  await db.batch(['drop table if exists note', 'create table note (id integer primary key, text unique)'])
  spans.reset()
  return db
}

describe('spans of calls', () => {
  test('a statement', async () => {
    const db = await connect()
    const insert = 'insert into note (text) values (?)'
    await db.batch([1, 2].map((value) => ({ sql: insert, args: [value] })))
    await db.execute('/* all */ select text from note where text <> ?', [SECRET])
    const select = findSpan('SELECT note')
    expect(select.kind).toBe(SpanKind.CLIENT)
    expect(select.attributes).toEqual({
      'db.system.name': 'sqlite',
      'db.namespace': 'shop',
      'db.collection.name': 'note',
      'db.operation.name': 'SELECT',
      'db.query.summary': 'SELECT note',
      'db.query.text': '/* all */ select text from note where text <> ?',
      'db.response.returned_rows': 2,
      'server.address': '127.0.0.1',
      'server.port': port,
    })
    expect(select.status.code).toBe(SpanStatusCode.UNSET)
    expect(findSpan('BATCH INSERT note').attributes).toMatchObject({
      'db.collection.name': 'note',
      'db.operation.name': 'BATCH INSERT',
      'db.operation.batch.size': 2,
      'db.query.text': insert,
    })
  })

  test('a batch with several kinds of statements, without an address, a namespace or SQL text', async () => {
    const db = await connect({ address: null, namespace: '', queryText: false })
    await db.batch(['insert into note (text) values (1)', 'select 1'])
    expect(findSpan('BATCH').attributes).toEqual({
      'db.system.name': 'sqlite',
      'db.operation.name': 'BATCH',
      'db.query.summary': 'BATCH',
      'db.operation.batch.size': 2,
      'db.response.returned_rows': 1,
    })
  })

  test('a rejected statement has its code but no arguments', async () => {
    const db = await connect()
    const insert = 'insert into note (text) values (?)'
    await db.execute(insert, [SECRET])
    await expect(db.execute(insert, [SECRET])).rejects.toThrow('UNIQUE')
    const [, rejected] = findSpans('INSERT note')
    expect(rejected?.status).toEqual({ code: SpanStatusCode.ERROR })
    expect(rejected?.attributes).toMatchObject({
      'error.type': 'SQLITE_CONSTRAINT',
      'db.response.status_code': 'SQLITE_CONSTRAINT_UNIQUE',
    })
    for (const { attributes, events, status } of spans.getFinishedSpans())
      expect(JSON.stringify([attributes, events, status])).not.toContain(SECRET)
  })

  test('a rejected request has its status', async () => {
    const observe = observeWithOpenTelemetry({ tracerProvider })
    const { db } = await scripted((_, response) => response.writeHead(401).end('no'), { observe })
    await expect(db.execute('select 1')).rejects.toThrow('401')
    expect(findSpan('SELECT').attributes).toMatchObject({
      'error.type': 'HTTP_STATUS',
      'db.response.status_code': '401',
    })
  })

  test('an aborted call has the name of the reason, which may be no error', async () => {
    const db = await connect()
    for (const [sql, reason] of [
      ['select 1', undefined],
      ['values (1)', SECRET],
      ['explain select 1', { name: SECRET, code: SECRET }],
    ] as const)
      await expect(db.execute(sql, [], { signal: AbortSignal.abort(reason) })).rejects.toBeDefined()
    expect(findSpan('SELECT').attributes['error.type']).toBe('AbortError')
    expect(findSpan('VALUES').attributes['error.type']).toBe('_OTHER')
    expect(findSpan('EXPLAIN SELECT').attributes['error.type']).toBe('_OTHER')
  })
})

describe('spans around calls', () => {
  test('each of several concurrent transactions has a span that contains its calls and is a child of the active span', async () => {
    const db = await connect()
    await tracer.startActiveSpan('request', async (request) => {
      await Promise.all(
        ['deferred', 'readonly'].map((mode) =>
          db.transaction(
            async (tx) => {
              await tx.execute(`select '${mode}'`)
              await tx.execute(`select '${mode}'`)
            },
            { mode: mode as 'deferred' | 'readonly' },
          ),
        ),
      )
      await db.execute('select 1')
      request.end()
    })
    const request = findSpan('request').spanContext().spanId
    const transactions = findSpans('transaction')
    expect(transactions.map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([request, request])
    const texts = transactions.map((transaction) => {
      expect(transaction.attributes).toMatchObject({ 'baton.transaction.end': 'commit' })
      const { spanId } = transaction.spanContext()
      const children = spans.getFinishedSpans().filter((span) => span.parentSpanContext?.spanId === spanId)
      return children.map(({ attributes }) => attributes['db.query.text'])
    })
    expect(texts.map(([first, second, ...others]) => [first === second, others])).toEqual([
      [true, []],
      [true, []],
    ])
    expect(new Set(texts.map(String)).size).toBe(2)
    const children = spans.getFinishedSpans().filter((span) => span.parentSpanContext?.spanId === request)
    expect(children.map(({ name }) => name).toSorted()).toEqual(['SELECT', 'transaction', 'transaction'])
  })

  test('a transaction that is rolled back', async () => {
    const db = await connect()
    const work = db.transaction(async (tx) => {
      await tx.execute('select 1')
      throw new Error('changed my mind')
    })
    await expect(work).rejects.toThrow('changed my mind')
    const transaction = findSpan('transaction')
    expect(transaction.attributes).toMatchObject({ 'baton.transaction.end': 'rollback' })
    expect(transaction.status.code).toBe(SpanStatusCode.UNSET)
  })

  test('a transaction that is lost', async () => {
    const db = await connect()
    const work = db.transaction(async (tx) => {
      await tx.execute("insert into note (text) values ('a')")
      await server.deleteDatabase('default')
      await server.createDatabase('default')
      await tx.execute('select 1')
    })
    await expect(work).rejects.toThrow()
    const transaction = findSpan('transaction')
    expect(transaction.status.code).toBe(SpanStatusCode.ERROR)
    expect(transaction.attributes).toMatchObject({
      'baton.transaction.end': 'lost',
      'error.type': 'TRANSACTION_LOST',
    })
  })

  test('a retry is an event of its call, or of the active span if several calls are in flight', async () => {
    const observe = observeWithOpenTelemetry({ tracerProvider })
    let failures = 1
    const { db } = await scripted(
      (_, response) => {
        if ((failures -= 1) >= 0) response.writeHead(503, { 'retry-after': '0' }).end('busy')
        else respond(response, executed)
      },
      { observe },
    )
    await db.execute('select 1', [], { readOnly: true })
    expect(findSpan('SELECT').events).toMatchObject([
      {
        name: 'retry',
        attributes: {
          'baton.retry.attempt': 1,
          'error.type': 'HTTP_STATUS',
          'db.response.status_code': '503',
        },
      },
    ])

    failures = 1
    spans.reset()
    await tracer.startActiveSpan('request', async (request) => {
      await Promise.all([1, 2].map(() => db.execute('select 1', [], { readOnly: true })))
      request.end()
    })
    expect(findSpan('request').events.map(({ name }) => name)).toEqual(['retry'])
    expect(findSpans('SELECT').flatMap(({ events }) => events)).toEqual([])
  })
})

test('measures the duration of successful and failed calls in seconds, and the returned rows', async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
  const meterProvider = new MeterProvider({ readers: [reader] })
  onTestFinished(() => meterProvider.shutdown())
  const db = createClient({ url, observe: observeWithOpenTelemetry({ tracerProvider, meterProvider, url }) })
  onTestFinished(() => db.close())
  await db.execute('select 1 union select 2')
  await expect(db.execute('select missing')).rejects.toThrow('no such column')
  await reader.forceFlush()
  const metrics = exporter
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics))
  const [duration, rows] = ['db.client.operation.duration', 'db.client.response.returned_rows'].map((name) =>
    metrics.find(({ descriptor }) => descriptor.name === name),
  )
  const commonAttributes = {
    'db.system.name': 'sqlite',
    'db.operation.name': 'SELECT',
    'server.address': '127.0.0.1',
    'server.port': port,
  }
  expect(duration?.descriptor).toMatchObject({ unit: 's' })
  expect(duration?.dataPoints).toMatchObject([
    { attributes: { ...commonAttributes, 'db.query.summary': 'SELECT SELECT' } },
    {
      attributes: {
        ...commonAttributes,
        'db.query.summary': 'SELECT',
        'error.type': expect.any(String) as string,
      },
    },
  ])
  for (const { value } of duration?.dataPoints ?? []) {
    const { count, sum = 0 } = value as { count: number; sum?: number }
    expect([count, sum > 0, sum < 5]).toEqual([1, true, true])
  }
  expect(rows?.descriptor).toMatchObject({ unit: '{row}' })
  expect(rows?.dataPoints).toMatchObject([{ attributes: commonAttributes, value: { count: 1, sum: 2 } }])
})

test('does nothing without an SDK', async () => {
  const db = createClient({ url, observe: observeWithOpenTelemetry() })
  onTestFinished(() => db.close())
  expect((await db.execute('select 1 as one')).rows).toEqual([{ one: 1 }])
  expect(trace.getActiveSpan()).toBe(undefined)
})

test.each([
  ['libsql://app.example', { 'server.address': 'app.example', 'server.port': 443 }],
  ['http://app.example', { 'server.address': 'app.example', 'server.port': 80 }],
  [new URL('libsql://app.example:8080?tls=0'), { 'server.address': 'app.example', 'server.port': 8080 }],
  ['libsql://app.example?tls=0', { 'server.address': 'app.example', 'server.port': 80 }],
  ['http://[::1]:8080', { 'server.address': '::1', 'server.port': 8080 }],
])('reads the address from %s', (url, expected) => {
  const observe = observeWithOpenTelemetry({ tracerProvider, url: url })
  const event = { id: -1, sql: ['-- none\n;'], inTransaction: false, transaction: null }
  observe({ type: 'query:start', ...event })
  observe({ type: 'query:end', id: -1, durationMs: 1, rows: 0, rowsRead: 0, rowsWritten: 0 })
  expect(spans.getFinishedSpans()[0]?.attributes).toMatchObject({ ...expected, 'db.operation.name': 'SQL' })
})

test.each([
  [{ url: 'app.example' }, /url must be the URL of the client/],
  [{ url: 'localhost:8080' }, /url must be the URL of the client/],
  [{ url: 'file:///app.db' }, /url must be the URL of the client/],
  [{ tracer: {} }, /unknown option tracer/],
  [{ queryText: 'yes' }, /queryText must be boolean/],
])('options %o are rejected', (options, message) => {
  expect(() => observeWithOpenTelemetry(options as OpenTelemetryOptions)).toThrow(message)
})
