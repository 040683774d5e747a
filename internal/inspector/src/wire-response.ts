import type { Outcome, ResponseEvent } from './page/wire-model.ts'
import { MAX_STATEMENTS, type ParsedRequest } from './wire-request.ts'

/** The parsed content of a response; the last outcomes may be missing. */
export interface ParsedResponse
  extends Pick<ResponseEvent, 'outcomes' | 'rows' | 'rowsRead' | 'rowsWritten' | 'isAutocommit'> {
  /** Baton that continues the stream; null if the stream was closed. Never shown. */
  readonly baton: string | null
}

/** Maximum length of a shown error, in characters. */
const MAX_MESSAGE_LENGTH = 1_000

interface WireError {
  readonly code?: unknown
  readonly message?: unknown
}

interface WireResult {
  readonly rows?: readonly unknown[]
  readonly rows_read?: unknown
  readonly rows_written?: unknown
}

interface WireBody {
  readonly baton?: unknown
  readonly results?: readonly {
    readonly response?: {
      readonly type?: unknown
      readonly is_autocommit?: unknown
      readonly result?: WireResult & {
        readonly step_results?: readonly (WireResult | null)[]
        readonly step_errors?: readonly (WireError | null)[]
      }
    }
    readonly error?: WireError
  }[]
}

interface CursorLine extends WireResult {
  readonly type?: unknown
  readonly step?: unknown
  readonly error?: WireError
}

/** Parses a response with status 200. Returns null if that is not possible. */
export function parseResponse(text: string, request: ParsedRequest): ParsedResponse | null {
  try {
    const reader = new ResponseReader()
    return request.shape === null ? reader.readCursor(text) : reader.readPipeline(text, request.shape)
  } catch {
    return null
  }
}

class ResponseReader {
  readonly #outcomes: Outcome[] = []
  #rows = 0
  #rowsRead = 0
  #rowsWritten = 0
  #isAutocommit: boolean | null = null

  readPipeline(text: string, shape: readonly number[]): ParsedResponse {
    const { baton, results = [] } = JSON.parse(text) as WireBody
    for (const [index, { response, error }] of results.entries()) {
      const statements = shape[index] ?? 0
      // of a request, and so of each of its statements
      if (error !== undefined) this.#outcomes.push(...Array<Outcome>(statements).fill(toOutcome(error)))
      else if (response?.type === 'batch') {
        const { step_results: stepResults, step_errors: stepErrors } = response.result ?? {}
        for (let step = 0; step < statements; step += 1) {
          const [stepResult, stepError] = [stepResults?.[step], stepErrors?.[step]]
          if (stepResult) this.#addResult(stepResult)
          else this.#outcomes.push(stepError ? toOutcome(stepError) : 'skipped')
        }
      } else if (statements > 0) this.#addResult(response?.result)
      if (response?.type === 'get_autocommit') this.#isAutocommit = response.is_autocommit === true
    }
    return this.#finish(baton)
  }

  readCursor(text: string): ParsedResponse {
    const [first = '{}', ...lines] = text.split('\n')
    const { baton } = JSON.parse(first) as WireBody
    for (const line of lines) {
      if (line.startsWith('{"type":"row"')) this.#rows += 1
      else if (line !== '') this.#addCursorLine(JSON.parse(line) as CursorLine)
    }
    return this.#finish(baton)
  }

  #addCursorLine(line: CursorLine): void {
    const step = typeof line.step === 'number' ? line.step : this.#outcomes.length
    switch (line.type) {
      case 'step_begin':
      case 'step_error':
        while (this.#outcomes.length < Math.min(step, MAX_STATEMENTS)) this.#outcomes.push('skipped')
        if (step < MAX_STATEMENTS)
          this.#outcomes[step] = line.error === undefined ? 'ok' : toOutcome(line.error)
        break
      case 'step_end':
        this.#count(line)
        break
      case 'error':
        this.#outcomes.push(toOutcome(line.error ?? {}))
        break
      default:
    }
  }

  #addResult(result: WireResult | undefined): void {
    this.#outcomes.push('ok')
    this.#rows += result?.rows?.length ?? 0
    this.#count(result)
  }

  #count(result: WireResult | undefined): void {
    this.#rowsRead += Number(result?.rows_read ?? 0)
    this.#rowsWritten += Number(result?.rows_written ?? 0)
  }

  #finish(baton: unknown): ParsedResponse {
    return {
      baton: typeof baton === 'string' ? baton : null,
      outcomes: this.#outcomes.slice(0, MAX_STATEMENTS),
      rows: this.#rows,
      rowsRead: this.#rowsRead,
      rowsWritten: this.#rowsWritten,
      isAutocommit: this.#isAutocommit,
    }
  }
}

function toOutcome({ code, message }: WireError): Outcome {
  return {
    code: typeof code === 'string' ? code : 'ERROR',
    message: typeof message === 'string' ? message.slice(0, MAX_MESSAGE_LENGTH) : '',
  }
}

/** Truncates an error message to the length that is shown. */
export function truncateMessage(text: string): string {
  return text.slice(0, MAX_MESSAGE_LENGTH)
}

/** Returns the baton at the beginning of a response that is too long to be parsed. */
export function findBaton(text: string): string | null {
  return /^\{"baton":"([^"]{1,200})"/.exec(text)?.[1] ?? null
}
