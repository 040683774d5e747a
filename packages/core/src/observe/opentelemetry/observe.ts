import { checkOptions, type RulesOf } from '@batonsql/options'
import {
  type Attributes,
  type Context,
  context,
  type Histogram,
  type MeterProvider,
  metrics,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
  trace,
} from '@opentelemetry/api'
import type { ClientEvent, Observe } from '../events.ts'
import { connectionAttributes, errorAttributes, operationAttributes } from './attributes.ts'

/** Options of {@link observeWithOpenTelemetry}. */
export interface OpenTelemetryOptions {
  /** @default the global one */
  readonly tracerProvider?: TracerProvider | undefined
  /** @default the global one */
  readonly meterProvider?: MeterProvider | undefined
  /** The client's URL, used only for `server.address` and `server.port`. */
  readonly url?: string | URL | undefined
  /** The database's name or the client's `namespace`, for `db.namespace`. */
  readonly namespace?: string | undefined
  /** Whether spans contain the SQL text, in which arguments are placeholders. @default true */
  readonly queryText?: boolean | undefined
}

const SCOPE = '@batonsql/core'
/** Bucket boundaries from the conventions. */
const SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
const ROWS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000]
const OPTIONS: RulesOf<OpenTelemetryOptions> = {
  tracerProvider: 'object',
  meterProvider: 'object',
  url: 'string or object',
  namespace: 'string',
  queryText: 'boolean',
}

/**
 * Returns an `observe` function for `createClient` that reports to OpenTelemetry: a span for each call and transaction, and the
 * metrics `db.client.operation.duration` (s) and `db.client.response.returned_rows`. Spans start in the context that is active
 * when the call is made.
 * @throws TypeError for invalid options
 */
export function observeWithOpenTelemetry(options: OpenTelemetryOptions = {}): Observe {
  checkOptions(options, OPTIONS)
  const reporter = new Reporter(options)
  return (event) => reporter.report(event)
}

interface Operation {
  readonly span: Span
  readonly context: Context
  /** Attributes of its measurements. */
  readonly attributes: Attributes
}

type TransactionEdge = `transaction:${'begin' | 'commit' | 'rollback' | 'lost'}`
type EventOf<T extends ClientEvent['type']> = Extract<ClientEvent, { readonly type: T }>

class Reporter {
  readonly #tracer
  readonly #durations: Histogram
  readonly #rowCounts: Histogram
  readonly #connection: Attributes
  readonly #hasText: boolean
  readonly #operations = new Map<number, Operation>()
  readonly #transactions = new Map<number, Span>()

  constructor({
    tracerProvider = trace,
    meterProvider = metrics,
    url,
    namespace,
    queryText = true,
  }: OpenTelemetryOptions) {
    this.#tracer = tracerProvider.getTracer(SCOPE)
    const meter = meterProvider.getMeter(SCOPE)
    this.#durations = meter.createHistogram('db.client.operation.duration', {
      description: 'Duration of database client operations.',
      unit: 's',
      advice: { explicitBucketBoundaries: SECONDS },
    })
    this.#rowCounts = meter.createHistogram('db.client.response.returned_rows', {
      description: 'The actual number of records returned by the database operation.',
      unit: '{row}',
      advice: { explicitBucketBoundaries: ROWS },
    })
    this.#connection = connectionAttributes(url, namespace)
    this.#hasText = queryText
  }

  report(event: ClientEvent): void {
    switch (event.type) {
      case 'query:start':
        return this.#start(event)
      case 'query:end':
      case 'query:error':
        return this.#end(event)
      case 'transaction:begin':
        return this.#begin(event.id)
      case 'transaction:expiring':
        this.#transactions
          .get(event.id)
          ?.addEvent('transaction.expiring', { 'baton.remaining_ms': event.remainingMs })
        return
      case 'transaction:commit':
      case 'transaction:rollback':
      case 'transaction:lost':
        return this.#endTransaction(event)
      case 'retry':
        return this.#retry(event)
      case 'request': // part of a call, which has a span
    }
  }

  #start({ id, sql, transaction }: EventOf<'query:start'>): void {
    const activeContext = context.active()
    const transactionSpan = transaction === null ? undefined : this.#transactions.get(transaction)
    const attributes = { ...this.#connection, ...operationAttributes(sql) }
    const text = new Set(sql).size === 1 ? sql[0] : sql.join('; ')
    const span = this.#tracer.startSpan(
      String(attributes['db.query.summary']),
      {
        kind: SpanKind.CLIENT,
        attributes: { ...attributes, ...(this.#hasText && { 'db.query.text': text }) },
      },
      transactionSpan === undefined ? activeContext : trace.setSpan(activeContext, transactionSpan),
    )
    const { 'db.operation.batch.size': _, ...measurementAttributes } = attributes
    this.#operations.set(id, { span, context: activeContext, attributes: measurementAttributes })
  }

  #end(event: EventOf<'query:end' | 'query:error'>): void {
    const operation = this.#operations.get(event.id)
    if (operation === undefined) return
    this.#operations.delete(event.id)
    const { span, attributes } = operation
    const seconds = event.durationMs / 1_000
    if (event.type === 'query:end') {
      span.setAttribute('db.response.returned_rows', event.rows)
      this.#durations.record(seconds, attributes)
      this.#rowCounts.record(event.rows, attributes)
    } else {
      recordError(span, event.error)
      this.#durations.record(seconds, { ...attributes, ...errorAttributes(event.error) })
    }
    span.end()
  }

  #begin(id: number): void {
    this.#transactions.set(
      id,
      this.#tracer.startSpan('transaction', { kind: SpanKind.INTERNAL, attributes: this.#connection }),
    )
  }

  #endTransaction(event: EventOf<TransactionEdge>): void {
    const span = this.#transactions.get(event.id)
    if (span === undefined) return
    this.#transactions.delete(event.id)
    span.setAttribute('baton.transaction.end', event.type.replace('transaction:', ''))
    if (event.type === 'transaction:lost') recordError(span, event.error)
    span.end()
  }

  /** Adds an event to the span of its call or, if several began in the same context, to their parent span. */
  #retry({ attempt, delayMs, error }: EventOf<'retry'>): void {
    const activeContext = context.active()
    const operations = [...this.#operations.values()].filter(
      (operation) => operation.context === activeContext,
    )
    const [operation] = operations
    const span = operations.length === 1 && operation ? operation.span : trace.getSpan(activeContext)
    span?.addEvent('retry', {
      'baton.retry.attempt': attempt,
      'baton.retry.delay_ms': delayMs,
      ...errorAttributes(error),
    })
  }
}

/** Marks a span as failed. Omits the message of the error, which may contain values. */
function recordError(span: Span, error: unknown): void {
  span.setAttributes(errorAttributes(error))
  span.setStatus({ code: SpanStatusCode.ERROR })
}
