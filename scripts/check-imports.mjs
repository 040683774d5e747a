// How the files of the packages may import each other, as far as the packages themselves do not say it: no circles, also none of
// types or through `import()`; no path into another package, past its `exports`; layers, each of which uses only those below it; and in the local server only the place that chooses a back end knows the embedded one.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** Folders and files of a package, the lowest first. */
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
    'endpoints',
    'backup',
    'index.ts',
  ],
  'internal/server-common': ['base', 'http', 'hrana', 'sql', 'backend', 'auth', 'test-clock.ts'],
}
const EMBEDDED = 'packages/local-server/src/embedded/'
const CHOOSES_BACKEND = 'packages/local-server/src/server/create-backend.ts'

const IMPORT = /(?:^|[\s;(])(?:from|import)\s*\(?\s*'(\.{1,2}\/[^']+\.ts)'/gm

const files = globSync('{packages,internal}/*/src/**/*.ts').map((file) => file.replaceAll('\\', '/'))
const sources = files.filter((file) => !file.endsWith('.test.ts'))
const graph = new Map(files.map((file) => [file, importsOf(file)]))
const problems = [...circles(), ...sources.flatMap((file) => graph.get(file).flatMap(refusalOf(file)))]
for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

function importsOf(file) {
  const text = readFileSync(file, 'utf8')
  return [...text.matchAll(IMPORT)].map(([, path]) =>
    normalize(join(dirname(file), path)).replaceAll('\\', '/'),
  )
}

/** One sentence for each import that closes a circle. */
function circles() {
  const found = []
  const done = new Set()
  const path = []
  const visit = (file) => {
    if (done.has(file)) return
    const at = path.indexOf(file)
    if (at >= 0) {
      found.push(`circle of imports: ${[...path.slice(at), file].join(' -> ')}`)
      return
    }
    path.push(file)
    for (const next of graph.get(file) ?? []) visit(next)
    path.pop()
    done.add(file)
  }
  for (const file of sources) visit(file)
  return found
}

function packageOf(path) {
  return path.split('/').slice(0, 2).join('/')
}

/** Returns a function that gives a sentence for a path that a file must not import. */
function refusalOf(file) {
  return (path) => {
    if (packageOf(path) !== packageOf(file)) return [`${file} imports ${path}: that is in another package`]
    if (path.startsWith(EMBEDDED) && !file.startsWith(EMBEDDED) && file !== CHOOSES_BACKEND)
      return [`${file} imports ${path}: only ${CHOOSES_BACKEND} may refer to the embedded back end`]
    return layerOf(path) > layerOf(file) ? [`${file} imports ${path}: that is in a layer above it`] : []
  }
}

/** Returns the height of a file in the layers of its package; 0 in a package without layers. */
function layerOf(file) {
  const layers = LAYERS[packageOf(file)]
  if (layers === undefined) return 0
  const name = file.split('/')[3]
  // the entry of a folder lies beside it
  const at = layers.findIndex((layer) => layer === name || `${layer}.ts` === name)
  if (at < 0) throw new Error(`${file} is in no layer of its package`)
  return at
}
