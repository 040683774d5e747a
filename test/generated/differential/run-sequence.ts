import http from 'node:http'
import { text as streamText } from 'node:stream/consumers'
import type { Exchange } from './sequences.ts'

/** A separate database on one of the servers. */
export interface Subject {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** A response from a server, without values that depend on time or randomness. */
export interface Reply {
  readonly status: number
  readonly body: unknown
}

const TIMEOUT_MS = 30_000

/**
 * Sends a sequence to a database. Each request waits for the response to the previous one; a stream that is not continued
 * is closed first, so that its write lock delays no other request.
 */
export async function runSequence(subject: Subject, exchanges: readonly Exchange[]): Promise<Reply[]> {
  const responses: Reply[] = []
  const batons = new Map<Exchange['client'], string>()
  for (const { route, continues, client, body } of exchanges) {
    if (!continues) await closeStream(client)
    const { status, text } = await send(subject, route, { ...body, baton: batons.get(client) ?? null })
    const parsed = route === '/v3/cursor' && status === 200 ? parseLines(text) : parse(text)
    const baton = getBaton(parsed)
    if (baton === null) batons.delete(client)
    else batons.set(client, baton)
    responses.push({ status, body: normalize(parsed) })
  }
  for (const client of batons.keys()) await closeStream(client)
  return responses

  async function closeStream(client: Exchange['client']): Promise<void> {
    const baton = batons.get(client)
    if (baton === undefined) return
    batons.delete(client)
    await send(subject, '/v3/pipeline', { baton, requests: [{ type: 'close' }] })
  }
}

/** Sends a request on its own connection, because libsql-server closes some connections after a response without notice. */
async function send(
  subject: Subject,
  route: string,
  body: object,
): Promise<{ status: number; text: string }> {
  const content = JSON.stringify(body, (_, value: unknown) =>
    Object.is(value, -0) ? '-0 as a number' : value,
  ).replaceAll('"-0 as a number"', '-0.0')
  const headers = { 'content-type': 'application/json', ...subject.headers }
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  return await new Promise((resolve, reject) => {
    const request = http.request(
      subject.url + route,
      { method: 'POST', headers, agent: false, signal },
      (response) => {
        const { statusCode: status = 0 } = response
        streamText(response).then(
          (text) => resolve({ status, text }),
          // a row with text that is not UTF-8 has no JSON form, so a cursor is truncated there
          () => resolve({ status, text: 'the response was truncated' }),
        )
      },
    )
    request.on('error', reject)
    request.end(content)
  })
}

/** Parses a response. Numbers are kept as written: 1.0 is not 1, and -0.0 is not 0. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text.replaceAll(/"value":(-?[0-9][0-9.eE+-]*)\}/g, '"value":"number $1"}'))
  } catch {
    return text
  }
}

function parseLines(text: string): unknown[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map(parse)
}

function getBaton(parsed: unknown): string | null {
  const first = Array.isArray(parsed) ? (parsed[0] as unknown) : parsed
  const { baton = null } = (typeof first === 'object' && first !== null ? first : {}) as {
    baton?: string | null
  }
  return baton
}

/** The two parsers describe the position of a syntax error differently. */
const SYNTAX_ERROR = /SQL string could not be parsed: [\s\S]*/

/** EXPLAIN shows the address of a virtual table in the engine's memory. */
const MEMORY_ADDRESS = /vtab:[0-9A-F]+/

const TIME_DEPENDENT_KEYS: ReadonlySet<string> = new Set(['query_duration_ms', 'replication_index'])

function normalize(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalize)
  if (typeof value === 'string') {
    return value
      .replace(SYNTAX_ERROR, 'SQL string could not be parsed')
      .replace(MEMORY_ADDRESS, 'vtab:ADDRESS')
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !TIME_DEPENDENT_KEYS.has(key))
      .map(([key, member]) => [key, key === 'baton' ? member !== null : normalize(member)]),
  )
}
