import type { EngineModule } from '../webassembly-types.ts'

/** The unit in which WebAssembly's memory grows. */
const BLOCK_BYTES = 64 * 1_024
const ZEROS = Buffer.alloc(BLOCK_BYTES)
/** An instance with more memory is not reused, because memory cannot shrink. */
const MAX_REUSED_BYTES = 32 * 1_024 * 1_024

interface ModuleExports {
  readonly memory: WebAssembly.Memory
  _initialize(): void
}

/**
 * An instance of the module that is used for one database after another. Its memory is erased in between, which takes a tenth of
 * the time of creating an instance and collecting it as garbage.
 */
export class ErasableInstance {
  readonly #exports: ModuleExports
  /** The parts of the memory that are not zero in a new instance, by address. */
  readonly #initial = new Map<number, Buffer>()
  #host: WebAssembly.ModuleImports = {}
  #isUsed = false

  constructor(module: EngineModule) {
    const forward = (name: string) => (first: number, second: number, third: number, fourth: number) =>
      this.#host[name]?.(first, second, third, fourth)
    const { exports } = new WebAssembly.Instance(module, {
      host: Object.fromEntries(WebAssembly.Module.imports(module).map(({ name }) => [name, forward(name)])),
      wasi_snapshot_preview1: { fd_close: reject, fd_seek: reject, fd_write: reject },
    })
    this.#exports = exports as ModuleExports
    this.#exports._initialize()
    for (const [at, block] of this.#usedBlocks()) this.#initial.set(at, Buffer.from(block))
  }

  /** Whether the memory is small enough for the instance to be reused. */
  get isReusable(): boolean {
    return this.#exports.memory.buffer.byteLength <= MAX_REUSED_BYTES
  }

  /**
   * Returns the exports of the module, with memory like that of a new instance. Functions returned by earlier calls then throw.
   * @param fail called when a function of the module has thrown
   */
  start(host: WebAssembly.ModuleImports, fail: (error: unknown) => never): Record<string, unknown> {
    if (this.#isUsed) this.#erase()
    this.#isUsed = true
    this.#host = host
    const guard =
      (call: CallableFunction) =>
      (...args: unknown[]): unknown => {
        if (this.#host !== host) throw new Error('the engine has been given another database')
        try {
          return call(...args)
        } catch (error) {
          return fail(error)
        }
      }
    return Object.fromEntries(
      Object.entries(this.#exports).map(([name, value]) => [
        name,
        typeof value === 'function' ? guard(value as CallableFunction) : value,
      ]),
    )
  }

  #erase(): void {
    // blocks that were never used are skipped, because writing to them would allocate them
    for (const [, block] of this.#usedBlocks()) block.fill(0)
    const memory = Buffer.from(this.#exports.memory.buffer)
    for (const [at, block] of this.#initial) memory.set(block, at)
  }

  *#usedBlocks(): Iterable<readonly [at: number, block: Buffer]> {
    const memory = Buffer.from(this.#exports.memory.buffer)
    for (let at = 0; at < memory.length; at += BLOCK_BYTES) {
      const block = memory.subarray(at, at + BLOCK_BYTES)
      if (!block.equals(ZEROS)) yield [at, block]
    }
  }
}

/** Rejects output. The module has no streams, and prints only before it aborts. */
function reject(): number {
  return 8 // EBADF
}
