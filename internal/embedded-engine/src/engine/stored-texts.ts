import { PipelineFailure, ResultError, type SqlReference } from '@batonsql/server-common/hrana'

const MAX_TEXTS = 50
const MAX_TEXT_BYTES = 5_000

/**
 * SQL text that a client has stored on its stream, to refer to it by number. The error messages are those of libsql-server. A
 * `ResultError` is the result of one request of a pipeline; a `PipelineFailure` rejects all of them.
 */
export class StoredTexts {
  readonly #texts = new Map<number, string>()
  readonly #replaces: boolean

  /** @param replaces whether storing SQL text under an existing number replaces it, as in the cloud, or fails */
  constructor(replaces: boolean) {
    this.#replaces = replaces
  }

  get isEmpty(): boolean {
    return this.#texts.size === 0
  }

  /** @throws PipelineFailure if the number is in use; ResultError if the text is too large, or there are too many */
  store(id: number, sql: string): void {
    const exists = this.#texts.has(id)
    if (exists && !this.#replaces) throw PipelineFailure.protocol(`SQL text ${id} already exists`)
    if (!exists && this.#texts.size >= MAX_TEXTS) {
      const message = `The server already stores ${MAX_TEXTS} SQL texts, it cannot store more`
      throw new ResultError('SQL_STORE_TOO_MANY', message)
    }
    const bytes = Buffer.byteLength(sql)
    if (bytes > MAX_TEXT_BYTES) {
      const size = `${formatSize(bytes)}/${formatSize(MAX_TEXT_BYTES)}`
      throw new ResultError('SQL_STORE_TOO_LARGE', `The statement is too large to be stored: ${size}`)
    }
    this.#texts.set(id, sql)
  }

  forget(id: number): void {
    this.#texts.delete(id)
  }

  /** Returns the SQL text of a statement, which is given directly or by its number. @throws PipelineFailure for neither or both */
  getText({ sql, sqlId }: SqlReference): string {
    if (sql !== null && sqlId !== null) {
      throw PipelineFailure.protocol('Either `sql` or `sql_id` are required, but not both')
    }
    if (sql !== null) return sql
    if (sqlId === null) throw PipelineFailure.protocol('Either `sql` or `sql_id` are required')
    const stored = this.#texts.get(sqlId)
    if (stored === undefined) throw PipelineFailure.protocol(`SQL text ${sqlId} not found`)
    return stored
  }
}

function formatSize(bytes: number): string {
  const isLarge = bytes > 1_000_000
  const size = bytes / (isLarge ? 1_000_000 : 1_000)
  // toFixed rounds 0.25 up, libsql-server to the even digit
  const rounded = size % 1 === 0.25 ? size - 0.05 : size
  return `${rounded.toFixed(1)} ${isLarge ? 'MB' : 'KB'}`
}
