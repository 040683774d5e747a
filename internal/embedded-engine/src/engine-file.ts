/** The engine's module, next to this file or to the bundle that contains it. */
export const ENGINE_FILE = new URL('libsql.wasm', import.meta.url)
