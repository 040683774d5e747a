import { HttpError, SqlError } from '../base/errors.ts'
import { isSuccess } from '../http/message.ts'
import { readErrorText } from '../http/response-body.ts'
import type { Exchange, TransportBody, TransportHead } from '../transport/transport.ts'

export type Line = IteratorResult<string, void>
export type Lines = AsyncGenerator<string, void, undefined>

/** The beginning of a response: its first lines, or the text of an error. */
export interface CursorStart extends TransportHead {
  readonly lines: Lines | null
  readonly first: readonly Line[]
  readonly text: string
}

/**
 * A cursor request. `response` resolves after two lines, because a replica sends the first line before it waits for the requested
 * replication index.
 */
export interface CursorExchange extends Exchange<CursorStart> {
  /** Resolves after the first line, which contains the baton. */
  readonly head: Promise<CursorStart>
}

export function openCursor(exchange: Exchange<TransportBody>): CursorExchange {
  const readStart = async ({ parts, ...head }: TransportBody): Promise<CursorStart> => {
    if (!isSuccess(head.status)) return { ...head, lines: null, first: [], text: await readErrorText(parts) }
    const lines = readLines(parts)
    return { ...head, lines, first: [await lines.next()], text: '' }
  }
  const head = exchange.response.then(readStart)
  const response = head.then(async (start) =>
    start.lines ? { ...start, first: [...start.first, await start.lines.next()] } : start,
  )
  return {
    head,
    response,
    get isSent() {
      return exchange.isSent
    },
    abort: () => exchange.abort(),
  }
}

/** Returns the error of a cursor request that was rejected as a whole. */
export function rejectionError(
  status: number,
  url: string,
  text: string,
  retryAfter: string | null | undefined,
  sql: string,
): Error {
  // a statement that does not parse fails the whole request
  const message = /(SQL string [^"]*[^"`])/.exec(text)?.[1]
  if (status === 500 && message) return new SqlError({ message, code: 'SQL_PARSE_ERROR' }, sql)
  return new HttpError(status, url, text, retryAfter)
}

async function* readLines(parts: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder()
  // a row may arrive in many parts; each part is searched only once
  let partialLine: string[] = []
  for await (const part of parts) {
    const [lineEnd = '', ...lines] = decoder.decode(part, { stream: true }).split('\n')
    partialLine.push(lineEnd)
    if (lines.length === 0) continue
    yield partialLine.join('')
    partialLine = [lines.pop() as string]
    yield* lines
  }
  const lastLine = partialLine.join('')
  if (lastLine !== '') yield lastLine
}
