import { ApiError } from '../api-error.ts'
import type { DumpShare } from './dump-budget.ts'

const MAX_BODY_BYTES = 1_024 ** 2
/** Maximum depth of a JSON body. */
const MAX_DEPTH = 16

/**
 * Parses a JSON body, whose keys are returned in lower case. Its content type is ignored, because clients send it as text, or without a
 * type. A form is not read, because its route reads it.
 * @returns `{}` for a form, and for a body that is empty or null
 * @throws ApiError 400 for any other body, 413 for more than a megabyte
 */
export async function readBody(request: Request): Promise<Readonly<Record<string, unknown>>> {
  if (request.body === null || request.headers.get('content-type')?.startsWith('multipart/') === true)
    return {}
  const text = await readLimitedText(request.body)
  if (text.trim() === '') return {}
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new ApiError(400, 'invalid request body: not JSON')
  }
  if (value === null) return {}
  if (typeof value !== 'object' || Array.isArray(value))
    throw new ApiError(400, 'invalid request body: not an object')
  return lowerCaseKeys(value, 0) as Readonly<Record<string, unknown>>
}

/** Returns the text of a body. @throws ApiError 413 for more than a megabyte */
export async function readLimitedText(body: ReadableStream<Uint8Array>): Promise<string> {
  return await new Response(limitBytes(body, MAX_BODY_BYTES)).text()
}

/** Returns a body stream that fails with an ApiError as soon as it exceeds `maxBytes` (413), or the budget of `share` (503). */
export function limitBytes(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
  share?: DumpShare,
): ReadableStream<Uint8Array> {
  let size = 0
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(part, controller) {
      size += part.length
      if (size > maxBytes) throw new ApiError(413, `a request body is limited to ${maxBytes} bytes`)
      share?.take(part.length)
      controller.enqueue(part)
    },
  })
  return body.pipeThrough(limit)
}

/** Converts keys to lower case: Turso's platform ignores their case, and its CLI relies on that. Of two that differ only in case, the last counts. */
function lowerCaseKeys(value: unknown, depth: number): unknown {
  if (depth > MAX_DEPTH) throw new ApiError(400, 'invalid request body: nested too deeply')
  if (Array.isArray(value)) return value.map((item) => lowerCaseKeys(item, depth + 1))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name.toLowerCase(), lowerCaseKeys(item, depth + 1)]),
  )
}
