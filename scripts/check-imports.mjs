// How the files of the packages may import each other: no circles, also none of types or through `import()`; the two back
// ends of the local server know nothing of each other, and only the place that chooses one knows them.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

const LOCAL = 'packages/local-server/src'
/** What lies behind a door, and who may open it. */
const DOORS = [
  { room: `${LOCAL}/embedded/`, mayEnter: [`${LOCAL}/server/create-backend.ts`] },
  { room: `${LOCAL}/sqld/`, mayEnter: [`${LOCAL}/server/create-backend.ts`, `${LOCAL}/sqld.ts`] },
]
const MAX_FILES_AT_ROOT = 8

const IMPORT = /(?:^|[\s;(])(?:from|import)\s*\(?\s*'(\.{1,2}\/[^']+\.ts)'/gm

const files = globSync('packages/*/src/**/*.ts').map((file) => file.replaceAll('\\', '/'))
const sources = files.filter((file) => !file.endsWith('.test.ts'))
const graph = new Map(files.map((file) => [file, importsOf(file)]))
const problems = [...circles(), ...brokenDoors(), ...crowdedRoot()]
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

function brokenDoors() {
  return DOORS.flatMap(({ room, mayEnter }) =>
    sources
      .filter((file) => !file.startsWith(room) && !mayEnter.includes(file))
      .flatMap((file) =>
        graph
          .get(file)
          .filter((path) => path.startsWith(room))
          .map((path) => `${file} imports ${path}: ${room} is for itself`),
      ),
  )
}

function crowdedRoot() {
  const root = sources.filter((file) => dirname(file) === LOCAL)
  return root.length > MAX_FILES_AT_ROOT
    ? [`${LOCAL} has ${root.length} files, more than ${MAX_FILES_AT_ROOT}`]
    : []
}
