import {
  type BatchStep,
  type Dialect,
  encodeError,
  type Permissions,
  type ResultError,
} from '@batonsql/server-common/hrana'
import { concat, type JsonText } from '../protocol/json-text.ts'
import type { Database } from './database.ts'
import type { StatementResult } from './result-encoder.ts'
import type { CursorSink, Session } from './session.ts'
import type { SqliteColumn } from './sqlite-connection.ts'

const CHUNK_CHARACTERS = 64 * 1_024

/** Receives a chunk of a cursor's text; resolves when the next is requested. @throws ClientDisconnectedError */
export type CursorOutput = (text: JsonText) => Promise<void>

export interface CursorProgram {
  readonly steps: readonly BatchStep[]
  readonly permissions: Permissions
  /** Called when the batch was accepted. */
  readonly onReady: () => void
}

/** Runs a batch as a cursor, whose entries are lines of JSON, sent in chunks. */
export async function runCursor(
  session: Session,
  database: Database,
  { steps, permissions, onReady }: CursorProgram,
  output: CursorOutput,
): Promise<void> {
  const lines = new CursorLines(output, database.dialect)
  await session.cursor(steps, permissions, lines, onReady)
  await lines.end(database.dialect === 'cloud' ? null : database.replicationIndex)
}

class CursorLines implements CursorSink {
  readonly #output: CursorOutput
  readonly #dialect: Dialect | null
  #pending = ''

  constructor(output: CursorOutput, dialect: Dialect | null) {
    this.#output = output
    this.#dialect = dialect
  }

  async beginStep(step: number, columns: readonly SqliteColumn[]): Promise<void> {
    await this.#addLine(`{"type":"step_begin","step":${step},"cols":${JSON.stringify(columns)}}`)
  }

  async writeRows(lines: JsonText): Promise<void> {
    if (typeof lines === 'string') return await this.#add(lines)
    const chunk = concat(this.#pending, lines)
    this.#pending = ''
    await this.#output(chunk)
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
    this.#pending += `{"type":"replication_index","replication_index":${replicationIndex}}\n`
    await this.#output(this.#pending)
  }

  async #addLine(text: string): Promise<void> {
    await this.#add(`${text}\n`)
  }

  async #add(text: string): Promise<void> {
    this.#pending += text
    if (this.#pending.length < CHUNK_CHARACTERS) return
    const chunk = this.#pending
    this.#pending = ''
    await this.#output(chunk)
  }
}
