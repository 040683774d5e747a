// What is used of WebAssembly: the types come with those of the browser only.
declare namespace WebAssembly {
  interface Memory {
    readonly buffer: ArrayBuffer
  }
  type ModuleImports = Record<string, (...values: number[]) => number | void>
  class Instance {
    constructor(module: Module, imports: Record<string, ModuleImports>)
    readonly exports: object
  }
  class RuntimeError extends Error {}
  function compile(bytes: Uint8Array): Promise<Module>
}
