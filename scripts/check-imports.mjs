// Checks the import rules that packages themselves cannot express: no cycles, including type imports and `import()`; no paths that
// bypass the `exports` of another package; layers import only from the layers below them; and in the local server, only the module
// that chooses a back end may refer to the embedded one.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** Folders and files of a package, lowest layer first. */
const LAYERS = {
  'packages/core': [
    'base',
    'sql',
    'codec',
    'transport',
    'observe',
    'options.ts',
    'config.ts',
    'http',
    'request',
    'stream',
    'client',
    'optimistic',
    'endpoints',
    'backup',
    'adapter.ts',
    'index.ts',
  ],
  'internal/server-common': ['base', 'http', 'hrana', 'sql', 'backend', 'auth'],
}
const EMBEDDED = 'packages/local-server/src/embedded/'
const CREATE_BACKEND = 'packages/local-server/src/server/create-backend.ts'

const IMPORT = /(?:^|[\s;(])(?:from|import)\s*\(?\s*'(\.{1,2}\/[^']+\.ts)'/gm

const files = globSync('{packages,internal}/*/src/**/*.ts').map((file) => file.replaceAll('\\', '/'))
const sources = files.filter((file) => !file.endsWith('.test.ts'))
const graph = new Map(files.map((file) => [file, importsOf(file)]))
const problems = [
  ...findCycles(),
  ...sources.flatMap((file) => graph.get(file).flatMap(findForbiddenImports(file))),
]
for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

function importsOf(file) {
  const text = readFileSync(file, 'utf8')
  return [...text.matchAll(IMPORT)].map(([, path]) =>
    normalize(join(dirname(file), path)).replaceAll('\\', '/'),
  )
}

/** Returns a message for each import that closes a cycle. */
function findCycles() {
  const messages = []
  const visited = new Set()
  const path = []
  const visit = (file) => {
    if (visited.has(file)) return
    const cycleStart = path.indexOf(file)
    if (cycleStart >= 0) {
      messages.push(`import cycle: ${[...path.slice(cycleStart), file].join(' -> ')}`)
      return
    }
    path.push(file)
    for (const next of graph.get(file) ?? []) visit(next)
    path.pop()
    visited.add(file)
  }
  for (const file of sources) visit(file)
  return messages
}

function packageOf(path) {
  return path.split('/').slice(0, 2).join('/')
}

/** Returns a function that returns an error message for each path that the file must not import. */
function findForbiddenImports(file) {
  return (path) => {
    if (packageOf(path) !== packageOf(file)) return [`${file} imports ${path}, which is in another package`]
    if (path.startsWith(EMBEDDED) && !file.startsWith(EMBEDDED) && file !== CREATE_BACKEND)
      return [`${file} imports ${path}: only ${CREATE_BACKEND} may refer to the embedded back end`]
    return layerOf(path) > layerOf(file) ? [`${file} imports ${path}, which is in a higher layer`] : []
  }
}

/** Returns the index of a file's layer; 0 in a package without layers. */
function layerOf(file) {
  const layers = LAYERS[packageOf(file)]
  if (layers === undefined) return 0
  const name = file.split('/')[3]
  // the entry file of a folder is next to it
  const index = layers.findIndex((layer) => layer === name || `${layer}.ts` === name)
  if (index < 0) throw new Error(`${file} does not belong to a layer of its package`)
  return index
}
