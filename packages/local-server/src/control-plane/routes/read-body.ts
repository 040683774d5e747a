import { Refusal } from '../refusal.ts'

/** The largest JSON body, in bytes. */
const MAX_BODY_BYTES = 1_024 ** 2
/** How deep a JSON body may be. */
const MAX_DEPTH = 16

/** JSON whatever it calls itself: clients send it as text, or without a type. */
export async function readBody(raw: Request): Promise<Readonly<Record<string, unknown>>> {
  if (raw.body === null || raw.headers.get('content-type')?.startsWith('multipart/') === true) return {}
  const text = await readLimited(raw.body)
  if (text.trim() === '') return {}
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Refusal(400, 'invalid request body: it is not JSON')
  }
  if (value === null) return {}
  if (typeof value !== 'object' || Array.isArray(value))
    throw new Refusal(400, 'invalid request body: it is not an object')
  return lowerKeys(value, 0) as Readonly<Record<string, unknown>>
}

/** The text of a body. @throws Refusal 413 */
export async function readLimited(body: ReadableStream<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of body) {
    size += part.length
    if (size > MAX_BODY_BYTES) throw new Refusal(413, `a request body has ${MAX_BODY_BYTES} bytes at most`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

/** The service reads keys without regard for case, and its command line counts on that. */
function lowerKeys(value: unknown, depth: number): unknown {
  if (depth > MAX_DEPTH) throw new Refusal(400, 'invalid request body: it is too deep')
  if (Array.isArray(value)) return value.map((item) => lowerKeys(item, depth + 1))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name.toLowerCase(), lowerKeys(item, depth + 1)]),
  )
}
