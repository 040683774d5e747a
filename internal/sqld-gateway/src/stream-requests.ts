import { Readable } from 'node:stream'
import {
  type DatabaseId,
  type RevokedAccess,
  type RunningRequest,
  revokedBeforeStartResponse,
  withTimeLimit,
} from '@batonsql/server-common/backend'
import { PipelineFailure, readBodyText } from '@batonsql/server-common/hrana'
import {
  type BodyWatcher,
  holdMoreMemory,
  type ServiceRequest,
  type ServiceResponse,
  watchBody,
} from '@batonsql/server-common/http'
import { BatonBinding, extractBaton, type StreamAttributes } from './baton-binding.ts'
import { buildClientResponse } from './build-client-response.ts'
import { readBody, TruncatedResponseError, type UpstreamResponse } from './process/exchange.ts'
import type { InternalRequests } from './process/internal-requests.ts'
import { isConnectionError, type Upstream, type UpstreamRequest } from './process/upstream.ts'
import type { SenderPermissions } from './process/upstream-tokens.ts'
import type { ResolveName } from './request/attach-names.ts'
import { decodeBody, type RebuiltBody, rebuildBody } from './request/rebuild-body.ts'
import { NO_EFFECT } from './request/write-effect.ts'
import { StreamWrites, type WriteRequest } from './writes/stream-writes.ts'
import { UnreadResponseGuard } from './writes/unread-response-guard.ts'
import type { WriteService } from './writes/write-service.ts'

/** How long a request that may hold the write lock continues after its client has disconnected. */
const ABANDONED_MS = 5_000
/** How long to wait for the server to close streams; a busy stream responds only when its statement is done. */
const CLOSE_MS = 2_000

/** A request from a client, before it is rebuilt. */
export interface ClientRequest extends UpstreamRequest {
  readonly request: ServiceRequest
  readonly signal: AbortSignal
}

/** A request with its abort handle. */
interface RunningCall {
  readonly request: ServiceRequest
  readonly running: RunningRequest
}

/** A request whose stream and SQL have been checked. */
interface CheckedRequest {
  readonly call: ClientRequest & RunningCall
  readonly body: RebuiltBody
  /** Attributes of its stream after this request. */
  readonly attributes: StreamAttributes
}

/** Rules that apply once the body of a request has been received. */
export interface StreamRules {
  readonly permissions: SenderPermissions
  readonly blockReads: boolean
  /** Whether programs that write are migrations. */
  readonly isSchema: boolean
  readonly blockWrites: boolean
  /** The error for a request that may write to a schema database; null if it is allowed. The server itself does not reject it. */
  readonly migrationRejection: string | null
  readonly resolveName: ResolveName
}

/** Handles requests with a body, which run on streams. */
export class StreamRequests {
  readonly #upstream: Upstream
  readonly #internal: InternalRequests
  readonly #writes: WriteService
  readonly #isReplica: boolean
  readonly #batons = new BatonBinding()

  constructor(upstream: Upstream, internal: InternalRequests, writes: WriteService, isReplica = false) {
    this.#isReplica = isReplica
    this.#upstream = upstream
    this.#internal = internal
    this.#writes = writes
  }

  /** @param getRules called when the body has arrived, because the token may have been revoked meanwhile */
  async handle(id: DatabaseId, call: RunningCall, getRules: () => StreamRules): Promise<ServiceResponse> {
    const { request, running } = call
    running.isReceiving = true
    const text = await readBodyText(request.body)
    running.isReceiving = false
    const rules = getRules()
    if (running.isRevoked) return revokedBeforeStartResponse()
    const checked = this.#check(id, call, text, rules)
    if (request.path === '/v3/cursor' && !checked.call.permissions.write)
      return await this.#sendReadOnlyCursor(checked)
    return await this.#send(checked, rules.migrationRejection)
  }

  /** Checks the stream and the SQL of a request, and rebuilds its body. @throws PipelineFailure, JsonShapeError */
  // oxlint-disable-next-line max-params
  #check(
    id: DatabaseId,
    { request, running }: RunningCall,
    text: string,
    { permissions, resolveName: resolve, ...rules }: StreamRules,
  ): CheckedRequest {
    const { write: mayWrite } = permissions
    const decodedBody = decodeBody(request.path, text)
    holdMoreMemory(request.body, decodedBody.parsingBytes)
    const { baton } = decodedBody
    const stream = baton === null ? null : this.#batons.find(baton, id, mayWrite)
    if (stream === undefined) throw invalidBaton()
    const newlyAttached: string[] = []
    const resolveName: ResolveName = (name) => {
      const attachedId = resolve(name)
      if (attachedId !== undefined) newlyAttached.push(attachedId)
      return attachedId
    }
    const hadAttached = stream?.hasAttached === true
    const body = rebuildBody(decodedBody, {
      ...rules,
      resolveName,
      mayWrite: mayWrite && !rules.blockWrites,
      hadAttached,
      isReplica: this.#isReplica,
    })
    const { hasAttached } = body
    const attached = [...(stream?.attached ?? []), ...newlyAttached]
    // an attached database may no longer be readable, for everyone or for this sender
    if (attached.some((attachedId) => resolve(attachedId) !== attachedId)) throw invalidBaton()
    running.attached = attached
    const call = {
      id,
      request,
      running,
      signal: running.signal,
      permissions: hasAttached ? { ...permissions, write: false } : permissions,
    }
    const writes = stream?.writes ?? new StreamWrites()
    const attributes = { database: id, mayWrite, hasAttached, attached, writes }
    return { call, body, attributes }
  }

  /** Sends a request when its writes may proceed. @param migrationRejection see {@link StreamRules} */
  async #send(
    { call, body, attributes }: CheckedRequest,
    migrationRejection: string | null,
  ): Promise<ServiceResponse> {
    const { id, request, running, signal } = call
    const { writes } = attributes
    const effect = call.permissions.write ? body.getEffect(writes.stored) : NO_EFFECT
    if (effect.mayWrite && migrationRejection !== null) throw PipelineFailure.service(403, migrationRejection)
    running.hasWriteAccess = attributes.mayWrite
    if (effect.mayWrite) {
      await this.#writes.beforeWrite(id)
      // nothing has been executed yet
      if (running.isRevoked) return revokedBeforeStartResponse()
    }
    const mayChangeData = writes.mayChangeData(effect)
    running.mayWrite = () => mayChangeData
    const write = await this.#writes.enter(id, writes, effect, signal)
    const response = await this.#sendToEnd(write, call, body.text)
    const isCursor = request.path === '/v3/cursor' && response.status === 200
    if (!isCursor) running.mayWrite = () => false
    const watchers = [...write.createWatchers(), this.#createBatonWatcher(running, attributes)]
    if (!running.mayWrite()) return await buildClientResponse(response, watchers)
    // if the connection were closed, the server would execute the remaining steps at an unknown time
    const onEnd = (isComplete: boolean): void => {
      if (!isComplete) write.onAbandoned()
    }
    const guard = new UnreadResponseGuard(() => this.#writes.isContended(id, writes))
    const clientResponse = await buildClientResponse(
      response,
      [{ onEnd }, ...watchers, guard.watcher],
      'drain',
    )
    if (clientResponse.body instanceof Readable) guard.watch(clientResponse.body)
    return clientResponse
  }

  /** Closes a database's streams that used the revoked access. They cannot be continued even if the server does not respond. */
  async closeStreams(id: DatabaseId, access: RevokedAccess): Promise<void> {
    const streams = this.#batons.drop(id, access)
    const closed = Promise.all(
      streams.map(({ baton }) => this.#internal.closeStream(id, baton).catch(() => {})),
    )
    await withTimeLimit(closed, CLOSE_MS)
    this.#writes.forgetStreams(
      id,
      streams.map(({ writes }) => writes),
    )
  }

  /**
   * Sends a request. If it may hold or acquire the write lock, waits for the response even after the client has disconnected: an
   * aborted request would leave the lock to a stream that no client can use, and block all writers.
   */
  async #sendToEnd(
    write: WriteRequest,
    call: ClientRequest & RunningCall,
    body: string,
  ): Promise<UpstreamResponse> {
    const { running, signal } = call
    const { mayHoldLock } = write
    try {
      const heldCall = mayHoldLock ? { ...call, signal: delaySignal(running, ABANDONED_MS) } : call
      const response = await this.#upstream.send(heldCall, body)
      if (response.status !== 200) write.onRejected()
      else if (call.request.path !== '/v3/cursor') write.onExecuted()
      if (!mayHoldLock || !signal.aborted || response.status !== 200) return response
      await this.#closeAbandoned(call.id, response, write.createWatchers())
      write.onStreamClosed()
    } catch (error) {
      if (isConnectionError(error)) write.onStreamClosed()
      else write.onAbandoned()
      throw error
    }
    throw signal.reason
  }

  /** Closes the stream of a response that no client reads. */
  async #closeAbandoned(
    id: DatabaseId,
    response: UpstreamResponse,
    watchers: readonly BodyWatcher[],
  ): Promise<void> {
    const body = watchBody(response.body, watchers)
    const baton = extractBaton((await readBody({ ...response, body })).toString('latin1'))
    if (baton !== null) await this.#internal.closeStream(id, baton)
  }

  /**
   * Sends a cursor without write permission. If it attempts to write, the server truncates the response, which is reported to the
   * client as a rejection.
   */
  async #sendReadOnlyCursor({ call, body, attributes }: CheckedRequest): Promise<ServiceResponse> {
    const { id, signal } = call
    try {
      const response = await this.#upstream.send({ ...call, hasEnough: continuesAfterFirstLine }, body.text)
      return await buildClientResponse(response, [this.#createBatonWatcher(call.running, attributes)])
    } catch (error) {
      if (!isConnectionError(error) || signal.aborted || !this.#upstream.isRunning) throw error
      const baton =
        error instanceof TruncatedResponseError ? extractBaton(error.received.toString('latin1')) : null
      if (baton !== null) await this.#internal.closeStream(id, baton)
      throw PipelineFailure.service(403, noWritePermission(id))
    }
  }

  /** Creates a watcher that records the stream of a response, which cannot be continued if its access was revoked meanwhile. */
  #createBatonWatcher(running: RunningRequest, attributes: StreamAttributes): BodyWatcher {
    return this.#batons.createWatcher(
      attributes,
      () => !running.isRevoked,
      (baton) => void this.#internal.closeStream(attributes.database, baton).catch(() => {}),
    )
  }
}

const LINE_FEED = 0x0a

/**
 * Whether the response to a cursor request continues after its first line, which only names the stream: libsql-server ends it there if
 * the cursor attempts to write.
 */
function continuesAfterFirstLine(received: Buffer): boolean {
  const lineEnd = received.indexOf(LINE_FEED)
  return lineEnd !== -1 && lineEnd + 1 < received.length
}

function invalidBaton(): PipelineFailure {
  return PipelineFailure.protocol('Received an invalid baton')
}

/** Returns the error for a missing permission, with libsql-server's text, including its mistake. */
function noWritePermission(id: DatabaseId): string {
  return `Authorization forbidden: Current session doesn't not have Write permission to namespace ${id}`
}

/** Returns a signal that aborts with a delay, so that an abandoned request may still finish. */
function delaySignal(running: RunningRequest, delayMs: number): AbortSignal {
  const { signal } = running
  const controller = new AbortController()
  running.onForcedAbort = () => controller.abort(signal.reason)
  const abort = (): void => void setTimeout(() => controller.abort(signal.reason), delayMs).unref()
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  return controller.signal
}
