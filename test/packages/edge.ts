import { builtinModules, createRequire } from 'node:module'
import { build, type Metafile } from 'esbuild'

// Runtimes without Node.js, which run a single bundled file.

/** Conditions of a package's `exports` that each runtime's own bundler sets. */
export const EDGE_CONDITIONS = {
  workerd: ['workerd', 'worker', 'browser'],
  'edge-light': ['edge-light', 'browser'],
  worker: ['worker', 'browser'],
} as const

export interface Bundle {
  readonly code: string
  /** The modules that it imports at run time. */
  readonly imports: readonly string[]
}

/** Bundles a program for the edge. Node's built-in modules are kept as imports, so that `imports` lists them. */
export async function bundleForEdge(
  folder: string,
  entry: string,
  conditions: readonly string[],
  format: 'esm' | 'iife' = 'esm',
): Promise<Bundle> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: folder,
    entryPoints: [entry],
    bundle: true,
    write: false,
    metafile: true,
    format,
    platform: 'neutral',
    mainFields: ['browser', 'module', 'main'],
    target: 'es2022',
    conditions: [...conditions],
    external: ['node:*', ...builtinModules],
    logLevel: 'error',
  })
  const [file] = outputFiles
  return { code: file?.text ?? '', imports: importsOf(metafile) }
}

const importsOf = ({ outputs }: Metafile): string[] =>
  Object.values(outputs).flatMap(({ imports }) => imports.map(({ path }) => path))

/** A bundle that a runtime is serving. */
export interface EdgeServer extends AsyncDisposable {
  fetch(path: string, init?: RequestInit): Promise<Response>
}

/** Serves a module with workerd, as a Worker. @param entry a file of miniflare @param bindings values of its `env` */
export async function serveWorker(
  entry: string,
  { code }: Bundle,
  bindings: Readonly<Record<string, unknown>>,
): Promise<EdgeServer> {
  const { Miniflare } = createRequire(entry)('miniflare') as {
    Miniflare: new (
      options: object,
    ) => {
      dispatchFetch(url: string, init?: object): Promise<Response>
      dispose(): Promise<void>
    }
  }
  const worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'worker.js', contents: code }],
    compatibilityDate: '2026-07-01',
    // no requests to Cloudflare
    cf: false,
    bindings,
  })
  return {
    fetch: (path, init) => worker.dispatchFetch(`http://worker${path}`, init),
    [Symbol.asyncDispose]: () => worker.dispose(),
  }
}

/** Serves a script that listens for `fetch` events. @param entry a file of edge-runtime */
export async function serveEdgeFunction(entry: string, { code }: Bundle): Promise<EdgeServer> {
  const { EdgeRuntime } = createRequire(entry)('edge-runtime') as {
    EdgeRuntime: new (options: {
      initialCode: string
    }) => { dispatchFetch(url: string, init?: object): Promise<Response> }
  }
  const runtime = new EdgeRuntime({ initialCode: code })
  return {
    fetch: (path, init) => runtime.dispatchFetch(`http://function${path}`, init),
    async [Symbol.asyncDispose]() {},
  }
}
