import { readFile } from 'node:fs/promises'
import { setFlagsFromString } from 'node:v8'
import type { EngineModule } from './webassembly-types.ts'

/** The module, next to this file or to the bundle that contains it. */
const MODULE = new URL('libsql.wasm', import.meta.url)

let compiled: Promise<EngineModule> | null = null

/**
 * Returns libSQL compiled to WebAssembly (built by `wasm/build.mjs`). It is compiled once per process; workers share the machine
 * code.
 */
export function loadEngineModule(): Promise<EngineModule> {
  compiled ??= compile()
  return compiled
}

async function compile(): Promise<EngineModule> {
  keepMachineCode()
  return await WebAssembly.compile(new Uint8Array(await readFile(MODULE)))
}

/**
 * Prevents V8 from freeing replaced WebAssembly machine code. If threads share a module, V8 may free the code of an imported
 * function twice and abort the process: https://github.com/nodejs/node/issues/64500. The flag applies to all modules of the process;
 * a process that was started with `--wasm-code-gc` keeps it.
 */
function keepMachineCode(): void {
  if (process.execArgv.includes('--wasm-code-gc')) return
  try {
    setFlagsFromString('--no-wasm-code-gc')
  } catch {
    // a runtime without V8, or without this flag
  }
}
