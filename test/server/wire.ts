/** A request of a pipeline, in wire format. */
export type WireRequest = Readonly<Record<string, unknown>>

export interface PipelineReply {
  readonly status: number
  readonly text: string
  readonly baton: string | null
  readonly results: readonly WireResult[]
}

interface WireResult {
  readonly type: 'ok' | 'error'
  readonly error?: { readonly code: string; readonly message: string }
  readonly response?: {
    readonly is_autocommit?: boolean
    readonly result?: { readonly rows: readonly (readonly WireValue[])[]; readonly cols: readonly unknown[] }
  }
}

interface WireValue {
  readonly type: string
  readonly value?: string | number | null
  readonly base64?: string
}

export interface WireOptions {
  readonly baton?: string | null
  readonly token?: string
  readonly signal?: AbortSignal
  readonly fetch?: typeof fetch
}

export const close: WireRequest = { type: 'close' }
export const autocommit: WireRequest = { type: 'get_autocommit' }

/** Creates an `execute` request; bigints, numbers, strings, bytes and null become wire values. */
export function execute(sql: string, ...args: readonly unknown[]): WireRequest {
  return { type: 'execute', stmt: { sql, args: args.map(toWire) } }
}

function toWire(value: unknown): WireValue {
  if (value === null) return { type: 'null' }
  if (typeof value === 'bigint') return { type: 'integer', value: String(value) }
  if (typeof value === 'number') return { type: 'float', value }
  if (value instanceof Uint8Array) return { type: 'blob', base64: Buffer.from(value).toString('base64') }
  if (typeof value === 'string') return { type: 'text', value }
  throw new TypeError(`not a wire value: ${typeof value}`)
}

/** Sends a pipeline without using a Baton client. */
export async function pipeline(
  url: string,
  requests: readonly WireRequest[],
  options: WireOptions = {},
): Promise<PipelineReply> {
  const { baton = null, token, signal } = options
  const response = await (options.fetch ?? fetch)(`${url.replace(/\/$/, '')}/v3/pipeline`, {
    method: 'POST',
    body: JSON.stringify({ baton, requests }),
    ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
    ...(signal !== undefined && { signal }),
  })
  const text = await response.text()
  const isOk = response.status === 200
  const body = (isOk ? JSON.parse(text) : { baton: null, results: [] }) as Pick<
    PipelineReply,
    'baton' | 'results'
  >
  return { status: response.status, text, baton: body.baton, results: body.results }
}

/** Runs one statement and returns its rows as plain values. Throws if the statement fails. */
export async function query(url: string, sql: string, options: WireOptions = {}): Promise<unknown[][]> {
  const reply = await pipeline(url, [execute(sql), close], options)
  const [result] = reply.results
  if (result?.type !== 'ok') throw new Error(`${sql}: ${reply.status} ${reply.text}`)
  return (result.response?.result?.rows ?? []).map((row) =>
    row.map((cell) => cell.value ?? cell.base64 ?? null),
  )
}

/** Returns the codes of a pipeline's results, `ok` for those without an error. */
export function codes(reply: PipelineReply): string[] {
  return reply.results.map((result) => result.error?.code ?? 'ok')
}
