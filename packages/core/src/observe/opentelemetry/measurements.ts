import type { Attributes, Histogram, Meter } from '@opentelemetry/api'

/** Bucket boundaries from the conventions. */
const SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
const ROWS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000]

/** The metrics of a client. */
export class Measurements {
  readonly #duration: Histogram
  readonly #rows: Histogram

  constructor(meter: Meter) {
    this.#duration = meter.createHistogram('db.client.operation.duration', {
      description: 'Duration of database client operations.',
      unit: 's',
      advice: { explicitBucketBoundaries: SECONDS },
    })
    this.#rows = meter.createHistogram('db.client.response.returned_rows', {
      description: 'The actual number of records returned by the database operation.',
      unit: '{row}',
      advice: { explicitBucketBoundaries: ROWS },
    })
  }

  succeeded(seconds: number, rows: number, attributes: Attributes): void {
    this.#duration.record(seconds, attributes)
    this.#rows.record(rows, attributes)
  }

  failed(seconds: number, attributes: Attributes): void {
    this.#duration.record(seconds, attributes)
  }
}
