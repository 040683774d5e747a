import type { DatabaseId } from '../backend/backend.ts'
import { LogKeeper } from './log-keeper.ts'
import type { WriteEffect } from './write-effect.ts'
import { type StreamWrites, WriteGate } from './write-gate.ts'

/** What is asked of the server for its logs. */
export interface ServerLogs {
  /** Bytes of a database's log. */
  readonly bytes: (id: DatabaseId) => Promise<number>
  readonly checkpoint: (id: DatabaseId) => Promise<void>
}

interface Database {
  readonly gate: WriteGate
  readonly keeper: LogKeeper | null
}

/** Only errors have this key in an answer; in a text of the database its quotes are escaped. */
const ERROR = '"message":"'
/** How the answer of a stream that was not closed begins. */
const GOES_ON = '{"baton":"'

/** The requests of all databases that may write: they pass a gate, and their logs are kept small. */
export class WriteTraffic {
  readonly #logs: ServerLogs | null
  readonly #databases = new Map<DatabaseId, Database>()

  /** @param logs null where the server's logs are out of reach */
  constructor(logs: ServerLogs | null) {
    this.#logs = logs
  }

  /** Waits until a request may be sent. Rejects when its client leaves meanwhile. */
  async enter(
    id: DatabaseId,
    stream: StreamWrites,
    effect: WriteEffect,
    signal: AbortSignal,
  ): Promise<WritePass> {
    const { gate, keeper } = this.#of(id)
    await gate.enter(stream, effect, signal)
    return new WritePass(gate, stream, effect, effect.mayWrite ? () => keeper?.written() : () => {})
  }

  /** A database was written to by a way of its own. */
  written(id: DatabaseId): void {
    this.#of(id).keeper?.written()
  }

  /** All streams of a database are gone. */
  forgetStreams(id: DatabaseId): void {
    this.#databases.get(id)?.gate.forgetIdle()
  }

  /** The server has ended, and all streams with it. */
  forgetAllStreams(): void {
    for (const { gate } of this.#databases.values()) {
      gate.forgetIdle()
      gate.noteAnswer()
    }
  }

  /** For how long no write of a database was answered while at least one waited. */
  silentMs(): ReadonlyMap<DatabaseId, number> {
    return new Map([...this.#databases].map(([id, { gate }]) => [id, gate.silentMs]))
  }

  /** A write that no client has sent was answered. */
  noteAnswer(id: DatabaseId): void {
    this.#databases.get(id)?.gate.noteAnswer()
  }

  /** A database is gone. */
  remove(id: DatabaseId): void {
    this.#databases.get(id)?.keeper?.close()
    this.#databases.delete(id)
  }

  close(): void {
    for (const id of this.#databases.keys()) this.remove(id)
  }

  #of(id: DatabaseId): Database {
    const known = this.#databases.get(id)
    if (known !== undefined) return known
    const [gate, logs] = [new WriteGate(), this.#logs]
    const keeper =
      logs === null
        ? null
        : new LogKeeper(gate, { bytes: () => logs.bytes(id), checkpoint: () => logs.checkpoint(id) })
    const made = { gate, keeper }
    this.#databases.set(id, made)
    return made
  }
}

/** A request that has passed the gate. */
export class WritePass {
  readonly #gate: WriteGate
  readonly #stream: StreamWrites
  readonly #effect: WriteEffect
  readonly #written: () => void

  constructor(gate: WriteGate, stream: StreamWrites, effect: WriteEffect, written: () => void) {
    this.#gate = gate
    this.#stream = stream
    this.#effect = effect
    this.#written = written
  }

  /** Whether its stream may hold the write lock, or get it. */
  get mayHoldLock(): boolean {
    return this.#gate.isWriter(this.#stream)
  }

  /** The server has begun to answer. */
  answered(): void {
    this.#gate.answered(this.#stream, this.#effect)
  }

  /** Its client has left; it may still run. */
  left(): void {
    this.#gate.left(this.#stream)
  }

  /** Its stream is gone: the server has not taken it, or has ended, or the stream was closed. */
  refused(): void {
    this.left()
    this.#end(false, true)
  }

  /** Passes an answer on and learns from it. */
  watch(answer: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
    const isOfInterest = this.#effect.mayWrite || this.#effect.opens || this.#stream.isOpen
    return isOfInterest ? this.#read(answer) : answer
  }

  async *#read(answer: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    // until the answer says otherwise
    let [goesOn, hasError] = [true, true]
    let end: Buffer = Buffer.alloc(0)
    let isErrorSeen = false
    try {
      for await (const chunk of answer) {
        // what is looked for may be cut in two
        const border = Buffer.concat([end, chunk.subarray(0, ERROR.length)])
        if (end.length === 0) goesOn = border.includes(GOES_ON)
        isErrorSeen ||= border.includes(ERROR) || chunk.includes(ERROR)
        end = chunk.subarray(-ERROR.length)
        yield chunk
      }
      hasError = isErrorSeen
    } finally {
      // also when its client has read enough
      this.#end(goesOn, hasError)
    }
  }

  #end(goesOn: boolean, hasError: boolean): void {
    this.#gate.ended(this.#stream, this.#effect, { goesOn, hasError })
    this.#written()
  }
}
