/*
 * The WebAssembly types that this package uses; TypeScript declares them only in its library for browsers.
 */
declare global {
  namespace WebAssembly {
    interface Memory {
      readonly buffer: ArrayBuffer
    }
    type ModuleImports = Record<string, (...values: number[]) => number | void>
    class Instance {
      constructor(module: Module, imports: Record<string, ModuleImports>)
      readonly exports: object
    }
    const Module: { imports(module: Module): readonly { readonly name: string }[] }
    class RuntimeError extends Error {}
    function compile(bytes: Uint8Array): Promise<Module>
  }
}

export type EngineModule = WebAssembly.Module
