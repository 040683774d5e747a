import { type Dialect, encodeError, type ResultError } from '@batonsql/server-common/hrana'
import type { JsonText } from '../protocol/json-text.ts'
import { ChunkedText, type TextOutput } from './chunked-text.ts'
import type { StatementResult } from './result-encoder.ts'
import type { SqliteColumn } from './sqlite-connection.ts'

/** Writes the output of a cursor, as lines of JSON that are sent in chunks; every call waits for the reader. */
export class CursorLines {
  readonly #text: ChunkedText
  readonly #dialect: Dialect | null

  constructor(output: TextOutput, dialect: Dialect | null) {
    this.#text = new ChunkedText(output)
    this.#dialect = dialect
  }

  async beginStep(step: number, columns: readonly SqliteColumn[]): Promise<void> {
    await this.#addLine(`{"type":"step_begin","step":${step},"cols":${JSON.stringify(columns)}}`)
  }

  /** Writes rows, one per line. */
  async writeRows(lines: JsonText): Promise<void> {
    if (typeof lines === 'string') await this.#text.add(lines)
    else await this.#text.flush(lines)
  }

  async endStep({ affectedRowCount, lastInsertRowid }: StatementResult): Promise<void> {
    // lastInsertRowid is a bare number of any size on the wire
    await this.#addLine(
      `{"type":"step_end","affected_row_count":${affectedRowCount},"last_insert_rowid":${lastInsertRowid}}`,
    )
  }

  async failStep(step: number, error: ResultError): Promise<void> {
    await this.#addLine(`{"type":"step_error","step":${step},"error":${encodeError(error, this.#dialect)}}`)
  }

  async end(replicationIndex: string | null): Promise<void> {
    await this.#text.flush(`{"type":"replication_index","replication_index":${replicationIndex}}\n`)
  }

  async #addLine(text: string): Promise<void> {
    await this.#text.add(`${text}\n`)
  }
}
