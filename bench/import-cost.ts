// What does importing cost, over a bare node? Fresh processes, in turn; nothing is called.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const MODULES = ['@batonsql/core', '@libsql/client/http', '@tursodatabase/serverless', 'undici'] as const

export interface ImportCost {
  readonly module: string
  /** Median over the rounds of (process that imports it) - (bare process), in ms. */
  readonly ms: number
}

export function measureImports(rounds: number): ImportCost[] {
  const samples = new Map<string, number[]>(MODULES.map((name) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    const bare = timeOf('')
    for (const name of MODULES) samples.get(name)?.push(timeOf(`import '${name}'`) - bare)
  }
  return MODULES.map((module) => ({ module, ms: median(samples.get(module) ?? []) }))
}

function timeOf(source: string): number {
  const started = performance.now()
  // the built package, as a user gets it
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', source], {
    cwd: fileURLToPath(new URL('.', import.meta.url)),
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(stderr)
  return performance.now() - started
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
