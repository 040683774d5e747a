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
