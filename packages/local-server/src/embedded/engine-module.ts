import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { EngineModule } from './webassembly-types.ts'

let compiled: Promise<EngineModule> | null = null

/**
 * libSQL compiled to WebAssembly (`engine/build.mjs` makes it). Compiled once a process; workers share the machine
 * code.
 */
export function engineModule(): Promise<EngineModule> {
  compiled ??= readFile(modulePath()).then((bytes) => WebAssembly.compile(new Uint8Array(bytes)))
  return compiled
}

function modulePath(): string {
  const manifest = createRequire(import.meta.url).resolve('@batonsql/local-server/package.json')
  return join(dirname(manifest), 'engine', 'libsql.wasm')
}
