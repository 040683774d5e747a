// Writes the public API of each package, without its documentation, to `docs/api`, so that a change is visible in review. Needs a
// build. With --check, fails if a file is outdated.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** Returns the declarations that a package exports and those that they import: a cached build may leave older ones in the folder. */
function findDeclarations(name, folder) {
  const files = new Set()
  const add = (file) => {
    if (files.has(file)) return
    files.add(file)
    const text = readFileSync(`${folder}/${file}`, 'utf8')
    for (const [, imported] of text.matchAll(/ from "\.\/([^"]+)\.js"/g)) add(`${imported}.d.ts`)
  }
  const manifest = readFileSync(`packages/${name}/package.json`, 'utf8')
  for (const [, file] of manifest.matchAll(/"\.\/dist\/([^"]+\.d\.ts)"/g)) add(file)
  return [...files].toSorted()
}

const isCheck = process.argv.includes('--check')
const outdated = []
mkdirSync('docs/api', { recursive: true })
for (const name of readdirSync('packages')) {
  const folder = `packages/${name}/dist`
  const files = findDeclarations(name, folder)
  if (files.length === 0) continue
  const declarations = files
    .map((file) => readFileSync(`${folder}/${file}`, 'utf8').trimEnd())
    .join('\n')
    // documentation, comments, and the names that the files of one package have for each other
    .replaceAll(/^\s*\/\*\*[^]*?\*\/\n/gm, '')
    .replaceAll(/^(?:\/\/|import .* from "\.\/|export \{ \w+ as \w,).*\n?/gm, '')
    // one name on each line
    .replaceAll(/^(?:import|export) \{ .*$/gm, (line) => line.replaceAll(/, /g, ',\n  '))
  const path = `docs/api/${name}.txt`
  if (existsSync(path) && readFileSync(path, 'utf8') === `${declarations}\n`) continue
  outdated.push(path)
  if (!isCheck) writeFileSync(path, `${declarations}\n`)
}
if (outdated.length > 0) console.log(`${isCheck ? 'outdated' : 'written'}: ${outdated.join(', ')}`)
if (isCheck && outdated.length > 0) process.exitCode = 1
