import { setFlagsFromString } from 'node:v8'

/**
 * Prevents V8 from freeing replaced WebAssembly machine code. If threads share a module, V8 may free the code of an imported
 * function twice and abort the process: https://github.com/nodejs/node/issues/64500. The flag applies to all modules of the process;
 * a process that was started with `--wasm-code-gc` must not call this.
 *
 * Called by a worker before it runs the engine, and not when the server starts: after a change of its flags, V8 compiles again what
 * it would have taken from a code cache, so that a thread takes twice as long to start.
 */
export function keepMachineCode(): void {
  try {
    setFlagsFromString('--no-wasm-code-gc')
  } catch {
    // a runtime without V8, or without this flag
  }
}
