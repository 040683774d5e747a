import { setFlagsFromString } from 'node:v8'

/** Whether an argument of Node is `--wasm-code-gc`, which V8 also accepts with `_` and with one `-`. */
export const isFreeingFlag = (argument: string): boolean => /^--?wasm[-_]code[-_]gc$/.test(argument)

/**
 * Prevents V8 from freeing replaced WebAssembly machine code. If threads share a module, V8 may free the code of an imported
 * function twice and abort the process: https://github.com/nodejs/node/issues/64500. The flag applies to all modules of the process,
 * so the workers do not call this if the user has started the process with the opposite flag.
 *
 * Called by each worker before it runs the engine, although the flag is that of the process. The server does not call it, because the
 * first worker would then take twice as long to start: after a change of its flags, V8 does not use its code caches.
 */
export function keepMachineCode(): void {
  try {
    setFlagsFromString('--no-wasm-code-gc')
  } catch {
    // a runtime without V8
  }
}
