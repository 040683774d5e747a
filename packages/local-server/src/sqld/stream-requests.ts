import type http from 'node:http'
import { Readable } from 'node:stream'
import type { DatabaseId, EndedAccess } from '../backend/backend.ts'
import { accessEndedBefore, type RunningRequest, within } from '../backend/running-requests.ts'
import { PipelineFailure } from '../hrana/pipeline-failure.ts'
import { readText } from '../hrana/request-decoder.ts'
import { readBytes, type ServiceRequest, type ServiceResponse } from '../http/service-request.ts'
import { BatonBinding, batonOf, type StreamFacts } from './baton-binding.ts'
import type { SenderRights } from './process/onward-tokens.ts'
import type { OwnRequests } from './process/own-requests.ts'
import { type Call, isBroken, type Upstream } from './process/upstream.ts'
import type { IdOfName } from './request/attach-names.ts'
import { awaitFirstEntry, BrokenOffError } from './request/cursor-start.ts'
import { finish, rebuildBody } from './request/rebuild.ts'
import { NO_EFFECT } from './request/write-effect.ts'
import { WholeCursor } from './whole-cursor.ts'
import { StreamWrites } from './writes/write-gate.ts'
import type { WritePass } from './writes/write-pass.ts'
import type { WriteService } from './writes/write-service.ts'

/** How long a request that may hold the write lock goes on without its client. */
const LEFT_BEHIND_MS = 5_000
/** How long the server may take to close streams: one that runs something answers when that is done. */
const CLOSE_MS = 2_000

/** The request of a client, as it came. */
export interface ClientCall extends Call {
  readonly request: ServiceRequest
}

/** A request, and what ends it. */
interface RunningCall {
  readonly request: ServiceRequest
  readonly running: RunningRequest
}

/** Whose stream a response continues. */
interface Continued {
  readonly id: DatabaseId
  readonly running: RunningRequest
}

/** What may be done with a database when the body of a request is there. */
export interface StreamRules {
  readonly rights: SenderRights
  readonly blockReads: boolean
  readonly idOf: IdOfName
}

/** Requests with a body: they go on a stream. */
export class StreamRequests {
  readonly #upstream: Upstream
  readonly #own: OwnRequests
  readonly #writes: WriteService
  readonly #batons = new BatonBinding()
  /** Databases of which the server may still run a request that was cut. */
  readonly #leftBehind = new Set<DatabaseId>()

  constructor(upstream: Upstream, own: OwnRequests, writes: WriteService) {
    this.#upstream = upstream
    this.#own = own
    this.#writes = writes
  }

  /** @param rulesNow a body may take its time, and the token may be ended meanwhile */
  async handle(
    id: DatabaseId,
    { request, running }: RunningCall,
    rulesNow: () => StreamRules,
  ): Promise<ServiceResponse> {
    running.isReceiving = true
    const given = await readText(request.body)
    running.isReceiving = false
    const { rights, idOf: idOfName, ...rules } = rulesNow()
    if (running.isEnding) return accessEndedBefore()
    const named: string[] = []
    const idOf: IdOfName = (name) => {
      const other = idOfName(name)
      if (other !== undefined) named.push(other)
      return other
    }
    const { write: mayWrite } = rights
    const hadAttached = (baton: string): boolean => this.#batons.hasAttached(baton)
    const body = rebuildBody(request.path, given, { ...rules, idOf, mayWrite, hadAttached })
    if (body.baton !== null && !this.#batons.allows(body.baton, id, mayWrite)) {
      throw PipelineFailure.protocol('Received an invalid baton')
    }
    const { hasAttached } = body
    const attached = [...(body.baton === null ? [] : this.#batons.attachedOf(body.baton)), ...named]
    // what it has attached may not be read any more, by anyone or by this sender
    if (attached.some((other) => idOfName(other) !== other))
      throw PipelineFailure.protocol('Received an invalid baton')
    running.attached = attached
    const call = { id, request, running, rights: hasAttached ? { ...rights, write: false } : rights }
    const known = body.baton === null ? undefined : this.#batons.writesOf(body.baton)
    const facts = { database: id, mayWrite, hasAttached, attached, writes: known ?? new StreamWrites() }
    const bytes = Buffer.from(body.text)
    if (request.path === '/v3/cursor' && !call.rights.write)
      return await this.#readersCursor(call, bytes, facts)
    const effect = call.rights.write ? body.effectOn(facts.writes.stored) : NO_EFFECT
    const isWriting = effect.mayWrite || (effect.ends && facts.writes.hasBegun)
    running.mayWrite = () => isWriting
    running.hasWriteAccess = mayWrite
    const pass = await this.#writes.enter(id, facts.writes, effect, request.signal)
    const answer = await this.#sendPast(pass, call, bytes)
    if (answer.statusCode !== 200 && known === undefined) pass.refused()
    // a pipeline has run when its response begins
    if (request.path !== '/v3/cursor' || answer.statusCode !== 200) running.mayWrite = () => false
    if (!running.mayWrite()) return await finish(answer, this.#watched(pass.watch(answer), call, facts))
    const rest = new WholeCursor(answer, () => this.#leftBehind.add(id))
    const whole = this.#watched(pass.watch(rest.read()), call, facts)
    whole.once('close', () => rest.close())
    return await finish(answer, whole)
  }

  /** Closes the streams of a database that were opened under an access. They cannot be continued, even if the server does not answer. */
  async closeAll(id: DatabaseId, access: EndedAccess): Promise<void> {
    const batons = this.#batons.drop(id, access)
    const closed = Promise.all(batons.map((baton) => this.#own.closeStream(id, baton).catch(() => {})))
    await within(closed, CLOSE_MS)
    this.#writes.forgetStreams(id)
  }

  /** Whether the server may still run a request of a database whose connection was cut. */
  isLeftBehind(id: DatabaseId): boolean {
    return this.#leftBehind.has(id)
  }

  /** The server has ended, and with it every request that it still ran. */
  forgetLeftBehind(): void {
    this.#leftBehind.clear()
  }

  /**
   * Sends a request, and waits for the answer of one that may hold the write lock or get it also when the client leaves
   * meanwhile: cut off, it would leave the lock with a stream that no client knows, and all writers would wait for it.
   */
  async #sendPast(
    pass: WritePass,
    call: ClientCall & RunningCall,
    body: Buffer,
  ): Promise<http.IncomingMessage> {
    const { request, running } = call
    const { mayHoldLock } = pass
    try {
      const signal = mayHoldLock ? lateSignal(running, LEFT_BEHIND_MS) : request.signal
      const answer = await this.#upstream.send({ ...call, request: { ...request, signal } }, body)
      pass.answered()
      if (!mayHoldLock || !request.signal.aborted) return answer
      await this.#closeLeft(call.id, pass.watch(answer))
      pass.refused()
    } catch (error) {
      if (isBroken(error)) pass.refused()
      // it may still run there
      else {
        pass.left()
        if (running.mayWrite()) this.#leftBehind.add(call.id)
      }
      throw error
    }
    throw request.signal.reason
  }

  /** Ends the stream of an answer that no client reads. */
  async #closeLeft(id: DatabaseId, answer: AsyncIterable<Buffer>): Promise<void> {
    const baton = batonOf((await readBytes(Readable.from(answer))).toString('latin1'))
    if (baton !== null) await this.#own.closeStream(id, baton)
  }

  /** The server finds out that a reader may not run a batch when it has answered already, and breaks off. */
  async #readersCursor(
    call: ClientCall & RunningCall,
    body: Buffer,
    facts: StreamFacts,
  ): Promise<ServiceResponse> {
    const { id, request } = call
    try {
      const answer = await this.#upstream.send(call, body)
      const entries = answer.statusCode === 200 ? await awaitFirstEntry(answer) : answer
      return await finish(answer, this.#watched(entries, call, facts))
    } catch (error) {
      const isBrokenOff =
        error instanceof BrokenOffError || (error as NodeJS.ErrnoException).code === 'ECONNRESET'
      if (!isBrokenOff || request.signal.aborted || !this.#upstream.isRunning) throw error
      if (error instanceof BrokenOffError && error.baton !== null)
        await this.#own.closeStream(id, error.baton)
      throw PipelineFailure.service(403, noWriteRight(id))
    }
  }

  /** Passes a response on. Its stream cannot be continued if its access has ended meanwhile. */
  #watched(answer: AsyncIterable<Buffer>, { id, running }: Continued, facts: StreamFacts): Readable {
    const gate = {
      isGood: () => !running.isEnding,
      drop: (baton: string) => void this.#own.closeStream(id, baton).catch(() => {}),
    }
    return Readable.from(this.#batons.watch(answer, facts, gate), { objectMode: false })
  }
}

function noWriteRight(id: DatabaseId): string {
  return `Authorization forbidden: Current session doesn't not have Write permission to namespace ${id}`
}

/** Aborts some time after the request's own signal: what was left behind may still come to its end. */
function lateSignal(running: RunningRequest, delayMs: number): AbortSignal {
  const { signal } = running
  const late = new AbortController()
  running.onForced = () => late.abort(signal.reason)
  const abort = (): void => void setTimeout(() => late.abort(signal.reason), delayMs).unref()
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  return late.signal
}
