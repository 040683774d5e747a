import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { decodeBody } from './decode-body.ts'
import { BatonNames, beginningOf, type ComparedResponse, isTruncated, normalizeBody } from './normalize.ts'
import type { Transcript, TranscriptStep } from './transcript.ts'

/** The lead that background requests had in the recording, so that they reach the server first. */
const BACKGROUND_LEAD_MS = 150
/** Up to this delay, a replay is equivalent to the recording. */
const MAX_DELAY_MS = 250
const ATTEMPTS = 10
/** How long to read a stream that might not end. */
const LISTEN_MS = 300

/** The server on which a case is replayed. */
export interface ReplayTarget {
  /** The server's bare URL. */
  readonly url: string
  /** Path prefix of the database that corresponds to the recorded server's only database. */
  readonly prefix: string
  /** Maps names and ids of this server to those in the recording. */
  readonly names: ReadonlyMap<string, string>
  /** Changes the settings of a database, as the administrator of the recorded server did. */
  configure(database: string, configuration: Readonly<Record<string, unknown>>): Promise<void>
  /** Creates a token from the claims in the recording. */
  token(claims: Readonly<Record<string, unknown>>): string
}

/** A response that differs from the recording. */
export interface Mismatch {
  readonly step: number
  readonly expected: unknown
  readonly actual: unknown
}

/** The result of a replay. */
export interface ReplayResult {
  readonly mismatches: readonly Mismatch[]
  /** The additional time taken by waits and by requests that do not run in the background. */
  readonly delayMs: number
}

/**
 * Replays a case. On a busy machine, its requests may be delayed beyond the server's time limits: a delayed replay with
 * mismatches is repeated, and the last attempt counts even if it was delayed.
 */
export async function replayWithRetries(run: () => Promise<ReplayResult>): Promise<readonly Mismatch[]> {
  for (let attempt = 1; ; attempt += 1) {
    const { mismatches, delayMs } = await run()
    if (mismatches.length === 0 || delayMs <= MAX_DELAY_MS || attempt === ATTEMPTS) return mismatches
  }
}

/** Sends the requests of a case and reports how the responses differ from the recording. */
export async function replay(transcript: Transcript, target: ReplayTarget): Promise<ReplayResult> {
  const run = new Replay(target)
  if (typeof transcript.setup === 'string') await run.prepare('localhost', transcript.setup)
  for (const [name, sql] of Object.entries(typeof transcript.setup === 'object' ? transcript.setup : {})) {
    await run.prepare(name === '' ? 'localhost' : `${name}.db.test`, sql)
  }
  const pending: Promise<void>[] = []
  for (const [index, step] of transcript.steps.entries()) {
    if (step.after_wait_ms !== undefined) await run.wait(step.after_wait_ms)
    if (step.request === undefined) continue
    if (run.isMissingBaton(step)) await Promise.all(pending)
    const sentAt = performance.now()
    const exchange = run.exchange(step, index)
    if (step.started_in_background === undefined) {
      await exchange
      const recordedMs = 1_000 * (step.response.took_s ?? 0)
      run.delayMs += Math.max(0, performance.now() - sentAt - recordedMs)
    } else {
      pending.push(exchange)
      await run.wait(BACKGROUND_LEAD_MS)
    }
  }
  if (pending.length > 0) await run.abortStreams(transcript.steps)
  await Promise.all(pending)
  return {
    mismatches: run.mismatches.toSorted((first, second) => first.step - second.step),
    delayMs: run.delayMs,
  }
}

class Replay {
  readonly mismatches: Mismatch[] = []
  delayMs = 0
  readonly #target: ReplayTarget
  /** Maps the recorded name of a baton to the baton from this server. */
  readonly #batons = new Map<string, string>()

  /** Abort the streamed responses. */
  readonly #streamControllers: AbortController[] = []

  constructor(target: ReplayTarget) {
    this.#target = target
  }

  async wait(ms: number): Promise<void> {
    const startedAt = performance.now()
    await sleep(ms)
    this.delayMs += performance.now() - startedAt - ms
  }

  /** Waits for the longest listening time of any step, then aborts the streamed responses. */
  async abortStreams(steps: readonly TranscriptStep[]): Promise<void> {
    await this.wait(Math.max(LISTEN_MS, ...steps.map((step) => step.listen_ms ?? 0)))
    for (const controller of this.#streamControllers) controller.abort()
  }

  /** Returns whether a step continues a stream whose baton is still in flight. */
  isMissingBaton({ request }: TranscriptStep): boolean {
    const names = request.body?.match(/<baton:\d+>/g) ?? []
    return names.some((name) => !this.#batons.has(name))
  }

  async prepare(host: string, sql: string): Promise<void> {
    const body = JSON.stringify({ requests: [{ type: 'sequence', sql }, { type: 'close' }] })
    const headers = { host, authorization: `Bearer ${this.#target.token({ a: 'rw' })}` }
    const { status, text } = await this.#send('POST', '/v2/pipeline', headers, { body, controller: null })
    if (status !== 200 || text.includes('"error"')) throw new Error(`the setup failed: ${text}`)
  }

  async exchange(step: TranscriptStep, index: number): Promise<void> {
    const { request, response } = step
    if (request.port === 'admin') return await this.#administer(request)
    const headers: Record<string, string> = { host: 'localhost' }
    for (const [name, value] of Object.entries(request.headers ?? {})) headers[name] = this.#fillHeader(value)
    const body = request.body === undefined ? undefined : this.#fillBody(request.body)
    const streamController = response.chunks === undefined ? null : new AbortController()
    if (streamController !== null) this.#streamControllers.push(streamController)
    // a streamed response might never end, and the next step waits for this one
    if (step.started_in_background === undefined) setTimeout(() => streamController?.abort(), LISTEN_MS)
    const disconnectsAfterMs = step.disconnects_after_ms
    const disconnectController = disconnectsAfterMs === undefined ? null : new AbortController()
    if (disconnectController !== null) setTimeout(() => disconnectController.abort(), disconnectsAfterMs)
    const reply = await this.#send(request.method, request.path, headers, {
      body,
      controller: disconnectController ?? streamController,
    })
    const recorded = recordedText(response)
    const text = this.#replaceNames(reply.text)
    this.#recordBatons(recorded, text)
    if (disconnectController !== null) return // the received part of a response depends on buffering
    const expected: ComparedResponse = {
      status: response.status ?? 0,
      contentType: response.headers?.['content-type'] ?? null,
      allow: response.headers?.['allow'] ?? null,
      body: null,
    }
    const { text: _, ...head } = reply
    const actual: ComparedResponse = { ...head, body: null }
    this.#compare(index, expected, actual, recorded, text)
  }

  /** Replays a configuration change, the only part of the recorded server's administration API that has a counterpart. */
  async #administer({ method, path, body = '' }: TranscriptStep['request']): Promise<void> {
    if (method === 'GET') return
    const database = /^\/v1\/namespaces\/([^/]+)\/config$/.exec(path)?.[1]
    if (database === undefined)
      throw new Error(`the recording contains an unsupported admin request: ${path}`)
    await this.#target.configure(database, JSON.parse(body) as Record<string, unknown>)
  }

  #replaceNames(text: string): string {
    let replaced = text
    for (const [id, name] of this.#target.names) replaced = replaced.replaceAll(id, name)
    return replaced
  }

  #compare(
    step: number,
    expected: ComparedResponse,
    actual: ComparedResponse,
    recorded: string,
    text: string,
  ): void {
    const expectedPart = isTruncated(recorded)
      ? { ...expected, body: beginningOf(recorded, 1_500) }
      : { ...expected, body: normalizeBody(recorded, new BatonNames()) }
    const actualPart = isTruncated(recorded)
      ? { ...actual, body: beginningOf(text, 1_500) }
      : { ...actual, body: normalizeBody(text, new BatonNames()) }
    if (JSON.stringify(expectedPart) !== JSON.stringify(actualPart))
      this.mismatches.push({ step, expected: expectedPart, actual: actualPart })
  }

  #fillBody(body: string): string {
    return body
      .replace(/^<sequence of (\d+) autocommit INSERTs>$/, (_, count: string) => {
        const sql = 'INSERT INTO t VALUES(1);'.repeat(Number(count))
        return JSON.stringify({ requests: [{ type: 'sequence', sql }, { type: 'close' }] })
      })
      .replace(/\{\{repeat:(.):(\d+)\}\}/g, (_, letter: string, count: string) =>
        letter.repeat(Number(count)),
      )
      .replace(/<baton:\d+>/g, (name) => this.#batons.get(name) ?? name)
  }

  #fillHeader(value: string): string {
    return value.replace(/<jwt (\{.*\})>/, (_, claims: string) =>
      this.#target.token(JSON.parse(claims) as object as never),
    )
  }

  #recordBatons(recorded: string, text: string): void {
    const name = /"baton":"(<baton:\d+>)"/.exec(recorded)?.[1]
    const baton = /"baton":"([^"]+)"/.exec(text)?.[1]
    if (name !== undefined && baton !== undefined) this.#batons.set(name, baton)
  }

  #send(
    method: string,
    path: string,
    headers: Record<string, string>,
    { body, controller }: { readonly body?: string | undefined; readonly controller: AbortController | null },
  ): Promise<Omit<ComparedResponse, 'body'> & { readonly text: string }> {
    const { hostname, port } = new URL(this.#target.url)
    return new Promise((resolve, reject) => {
      const options = {
        hostname,
        port,
        method,
        path: this.#target.prefix + path,
        headers,
        agent: false as const,
      }
      const parts: Buffer[] = []
      let incoming: http.IncomingMessage | null = null
      const finish = (): void => {
        const headers = incoming?.headers ?? {}
        resolve({
          status: incoming?.statusCode ?? 0,
          contentType: headers['content-type'] ?? null,
          allow: headers['allow'] ?? null,
          text: Buffer.concat(parts).toString('utf8'),
        })
      }
      const request = http.request(options, (response) => {
        incoming = response
        response.on('data', (part: Buffer) => parts.push(part))
        response.on('end', finish)
        response.on('error', finish) // the received part of a truncated body is compared
      })
      controller?.signal.addEventListener('abort', () => {
        finish()
        request.destroy()
      })
      request.on('error', reject)
      request.end(body)
    })
  }
}

/** Returns a recorded response as text. */
function recordedText({ headers, body, body_base64: bytes, chunks }: TranscriptStep['response']): string {
  if (bytes !== undefined)
    return decodeBody(headers?.['content-encoding'] ?? null, Buffer.from(bytes, 'base64'))
  return chunks?.map(({ text }) => text).join('') ?? body ?? ''
}
