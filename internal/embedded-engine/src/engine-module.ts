import { readFile } from 'node:fs/promises'
import { ENGINE_FILE } from './engine-file.ts'
import type { EngineModule } from './webassembly-types.ts'

let compiled: Promise<EngineModule> | null = null

/**
 * Returns libSQL compiled to WebAssembly (built by `wasm/build.mjs`). It is compiled once per process; workers share the machine
 * code.
 */
export function loadEngineModule(): Promise<EngineModule> {
  compiled ??= compile().catch((error: unknown) => {
    compiled = null // retried by the next call
    throw error
  })
  return compiled
}

async function compile(): Promise<EngineModule> {
  return await WebAssembly.compile(new Uint8Array(await readFile(ENGINE_FILE)))
}
