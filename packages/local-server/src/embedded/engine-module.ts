import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import type { EngineModule } from './webassembly-types.ts'

let compiled: Promise<EngineModule> | null = null

/**
 * libSQL compiled to WebAssembly (`engine/build.mjs` makes it). Compiled once a process; workers share the machine
 * code.
 */
export function engineModule(): Promise<EngineModule> {
  compiled ??= compile()
  return compiled
}

async function compile(): Promise<EngineModule> {
  keepMachineCode()
  return await WebAssembly.compile(new Uint8Array(await readFile(modulePath())))
}

/**
 * Lets V8 keep machine code of WebAssembly that it has better code for. When threads share a module, it may free the code of
 * an imported function twice, and abort the process: https://github.com/nodejs/node/issues/64500
 */
function keepMachineCode(): void {
  try {
    setFlagsFromString('--no-wasm-code-gc')
  } catch {
    // a runtime without V8, or without this
  }
}

function modulePath(): string {
  const manifest = createRequire(import.meta.url).resolve('@batonsql/local-server/package.json')
  return join(dirname(manifest), 'engine', 'libsql.wasm')
}
