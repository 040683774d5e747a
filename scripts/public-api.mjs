// Writes the public API of each package, without its documentation, to `docs/api`, so that a change is visible in review. Needs a
// build. With --check, fails if a file is outdated.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'

const isCheck = process.argv.includes('--check')
const outdated = []
mkdirSync('docs/api', { recursive: true })
for (const name of readdirSync('packages')) {
  const folder = `packages/${name}/dist`
  const files = readdirSync(folder).filter((file) => file.endsWith('.d.ts'))
  if (files.length === 0) continue
  const text = files.map((file) => readFileSync(`${folder}/${file}`, 'utf8')).join('')
  const declarations = text
    // names of chunks contain a hash
    .replaceAll(/(from "\.\/[\w-]+?)-[\w-]{8}(\.js")/g, '$1$2')
    .replaceAll(/^\s*\/\*\*[^]*?\*\/\n/gm, '')
    .replaceAll(/^\/\/.*\n/gm, '')
  const path = `docs/api/${name}.txt`
  if (existsSync(path) && readFileSync(path, 'utf8') === declarations) continue
  outdated.push(path)
  if (!isCheck) writeFileSync(path, declarations)
}
if (outdated.length > 0) console.log(`${isCheck ? 'outdated' : 'written'}: ${outdated.join(', ')}`)
if (isCheck && outdated.length > 0) process.exitCode = 1
