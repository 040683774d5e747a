import { randomFillSync } from 'node:crypto'
import type { SharedCallState } from '../protocol/shared-call-state.ts'
import type { DatabaseFiles } from './database-files.ts'
import type { ErasableInstance } from './erasable-instance.ts'
import { formatFloat } from './float-text.ts'
import type { TableAuthorizer } from './table-authorizer.ts'

/** An address in the module's memory; 0 for none. */
export type Pointer = number

export interface Grant {
  readonly write: boolean
  /** @default false */
  readonly attach?: boolean
  /** Whether all pragmas are allowed, for internal statements. @default false */
  readonly configure?: boolean
  /** Permissions for tables; null for no further limits. @default null */
  readonly tables?: TableAuthorizer | null
}

/** The exports of the module that are used: functions of SQLite and of `wasm/*.c`. */
interface EngineExports {
  readonly memory: WebAssembly.Memory
  malloc(bytes: number): Pointer
  free(at: Pointer): void
  baton_open(path: Pointer, name: Pointer, readOnly: number): Pointer
  baton_reset(connection: Pointer): number
  baton_grant(write: number, attach: number, configure: number, restricted: number): void
  baton_was_denied(): number
  baton_rows(statement: Pointer, limit: number, asLines: number, maxBytes: number): number
  baton_dump_rows(statement: Pointer, prefix: Pointer, limit: number): number
  baton_watch(connection: Pointer, isWatched: number): void
  baton_output(): Pointer
  baton_output_length(): number
  baton_result_size(): number
  baton_bad_text_index(): number
  baton_bad_text_length(): number
  baton_shrink_output(): void
  baton_bind_text(statement: Pointer, number: number, text: Pointer, bytes: number): number
  baton_bind_blob(statement: Pointer, number: number, blob: Pointer, bytes: number): number
  sqlite3_close_v2(connection: Pointer): number
  sqlite3_prepare_v3(
    connection: Pointer,
    sql: Pointer,
    bytes: number,
    flags: number,
    statement: Pointer,
    tail: Pointer,
  ): number
  sqlite3_step(statement: Pointer): number
  sqlite3_reset(statement: Pointer): number
  sqlite3_clear_bindings(statement: Pointer): number
  sqlite3_finalize(statement: Pointer): number
  sqlite3_errmsg(connection: Pointer): Pointer
  sqlite3_extended_errcode(connection: Pointer): number
  sqlite3_error_offset(connection: Pointer): number
  sqlite3_changes64(connection: Pointer): bigint
  sqlite3_total_changes64(connection: Pointer): bigint
  sqlite3_last_insert_rowid(connection: Pointer): bigint
  sqlite3_get_autocommit(connection: Pointer): number
  sqlite3_column_count(statement: Pointer): number
  sqlite3_column_name(statement: Pointer, column: number): Pointer
  sqlite3_column_decltype(statement: Pointer, column: number): Pointer
  sqlite3_column_int64(statement: Pointer, column: number): bigint
  sqlite3_stmt_readonly(statement: Pointer): number
  sqlite3_stmt_isexplain(statement: Pointer): number
  sqlite3_stmt_status(statement: Pointer, counter: number, reset: number): number
  sqlite3_bind_parameter_count(statement: Pointer): number
  sqlite3_bind_parameter_name(statement: Pointer, number: number): Pointer
  sqlite3_bind_null(statement: Pointer, number: number): number
  sqlite3_bind_int64(statement: Pointer, number: number, value: bigint): number
  sqlite3_bind_double(statement: Pointer, number: number, value: number): number
  sqlite3_interrupt(connection: Pointer): void
  sqlite3_limit(connection: Pointer, limit: number, value: number): number
  sqlite3_keyword_check(word: Pointer, bytes: number): number
  sqlite3_libversion(): Pointer
}

const SCRATCH_BYTES = 8

/** Receives changes while a statement runs. Must not call the engine. */
export interface ChangeWatcher {
  /**
   * Called when a row was changed. @param action SQLite's code @param savepoints number of open savepoints, including the
   * statement's
   */
  onChange(action: number, table: string, savepoints: number): void
  /** Called when the changes since a savepoint were undone or kept. @param index index of the savepoint; -1 for all changes */
  onSavepointEnd(index: number, isUndone: boolean): void
  /** Called before the changes are committed. */
  onCommit(): void
}

export interface EngineDependencies {
  readonly files: DatabaseFiles
  readonly state: SharedCallState
  /**
   * Called when an engine call has thrown: the engine's memory may be in any state, and must not be written to the file. Ends the
   * thread at once, before any other call; even ending the statement could commit changes. @default throws the error
   */
  readonly fail?: (error: unknown) => never
}

/**
 * The engine of one database, for all of its connections. Calls block the thread; long ones regularly check the shared
 * state for interruptions.
 */
export class EngineInstance {
  readonly api: EngineExports
  /** Eight bytes for values that a call returns through a pointer. */
  readonly scratch: Pointer
  /** Called while a checkpoint runs, between reading the header of the WAL and copying the WAL; only tests set it. */
  onCheckpoint: () => void = () => {}
  readonly #state: SharedCallState
  readonly #watchers = new Map<Pointer, ChangeWatcher>()
  #tables: TableAuthorizer | null = null
  #view = Buffer.alloc(0)
  #recycled: ArrayBuffer | null = null

  constructor(instance: ErasableInstance, { files, state, fail = rethrow }: EngineDependencies) {
    this.#state = state
    this.api = instance.start(this.#hostImports(files), fail) as unknown as EngineExports
    this.scratch = this.api.malloc(SCRATCH_BYTES)
  }

  /** The memory of the engine. Any call may grow it, which replaces its buffer. */
  get #bytes(): Buffer {
    const { buffer } = this.api.memory
    if (this.#view.buffer !== buffer) this.#view = Buffer.from(buffer)
    return this.#view
  }

  get version(): string {
    return this.readCString(this.api.sqlite3_libversion())
  }

  /** Runs a function for a call, which is marked as the current one in the shared state. */
  runForCall<T>(call: number, run: () => T): T {
    this.#state.current = call
    try {
      return run()
    } finally {
      this.#state.current = 0
    }
  }

  /** Starts or stops reporting changes of a connection. */
  watch(connection: Pointer, watcher: ChangeWatcher | null): void {
    if (watcher === null) this.#watchers.delete(connection)
    else this.#watchers.set(connection, watcher)
    this.api.baton_watch(connection, Number(watcher !== null))
  }

  /** Sets the permissions of the next statement that is compiled or executed. */
  grant({ write, attach = false, configure = false, tables = null }: Grant): void {
    this.#tables = tables
    tables?.reset()
    this.api.baton_grant(Number(write), Number(attach), Number(configure), Number(tables !== null))
  }

  /** Returns the NUL-terminated text at an address; empty for the address 0. */
  readCString(at: Pointer): string {
    if (at === 0) return ''
    return this.#bytes.toString('utf8', at, this.#bytes.indexOf(0, at))
  }

  readText(at: Pointer, length: number): string {
    return this.#bytes.toString('utf8', at, at + length)
  }

  /** Returns a copy of `length` bytes at an address, in the recycled buffer if it has about this size. */
  copyBytes(at: Pointer, length: number): Uint8Array<ArrayBuffer> {
    const recycled = this.#recycled
    const fits = recycled !== null && recycled.byteLength >= length && recycled.byteLength < 2 * length
    const copy = fits ? new Uint8Array(recycled, 0, length) : new Uint8Array(length)
    if (fits) this.#recycled = null
    copy.set(this.#bytes.subarray(at, at + length))
    return copy
  }

  /** Keeps a buffer for the next copy: allocating a large one, and collecting it as garbage, takes longer than filling it. */
  recycle(buffer: ArrayBuffer): void {
    this.#recycled = buffer
  }

  /** Copies bytes to the module's memory, with a NUL at the end. The caller frees them. */
  put(bytes: Uint8Array): Pointer {
    const at = this.api.malloc(bytes.length + 1)
    if (at === 0) throw new RangeError('the engine is out of memory')
    const memory = new Uint8Array(this.api.memory.buffer, at, bytes.length + 1)
    memory.set(bytes)
    memory[bytes.length] = 0
    return at
  }

  readPointer(at: Pointer): Pointer {
    return new DataView(this.api.memory.buffer).getUint32(at, true)
  }

  #hostImports(files: DatabaseFiles): WebAssembly.ModuleImports {
    const bytes = (at: Pointer, count: number): Uint8Array => this.#bytes.subarray(at, at + count)
    return {
      open: (name: Pointer, create: number) => files.open(this.readCString(name), create !== 0),
      close: (descriptor: number) => files.close(descriptor),
      read: (descriptor: number, into: Pointer, count: number, offset: number) =>
        files.read(descriptor, bytes(into, count), offset),
      write: (descriptor: number, from: Pointer, count: number, offset: number) =>
        files.write(descriptor, bytes(from, count), offset),
      truncate: (descriptor: number, sizeBytes: number) => files.truncate(descriptor, sizeBytes),
      sync: (descriptor: number) => files.sync(descriptor),
      size: (descriptor: number) => files.size(descriptor),
      delete: (name: Pointer) => files.delete(this.readCString(name)),
      exists: (name: Pointer) => Number(files.exists(this.readCString(name))),
      random: (into: Pointer, count: number) => void randomFillSync(bytes(into, count)),
      time: () => Date.now(),
      float: (value: number, into: Pointer) => this.#bytes.write(formatFloat(value), into, 'latin1'),
      changed: (connection: Pointer, action: number, table: Pointer, savepoints: number) =>
        this.#watchers.get(connection)?.onChange(action, this.readCString(table), savepoints),
      savepoint: (connection: Pointer, index: number, isUndone: number) =>
        this.#watchers.get(connection)?.onSavepointEnd(index, isUndone !== 0),
      permits: (action: number, first: Pointer, second: Pointer) =>
        Number(this.#tables?.permits(action, this.readCString(first), this.readCString(second)) ?? true),
      committing: (connection: Pointer) => this.#watchers.get(connection)?.onCommit(),
      interrupted: () => Number(this.#state.isInterrupted),
      checkpointing: () => this.onCheckpoint(),
    }
  }
}

function rethrow(error: unknown): never {
  throw error
}
