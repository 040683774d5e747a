// Adds CommonJS entries to the package in the current folder, as listed under `require` in its `exports`: a module that loads the
// ES module, so that there is only one instance of it, and a copy of its declarations. TypeScript up to `module: node18` rejects
// `require` of an ES module's declarations, although node supports it.
import { readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

const { exports } = JSON.parse(readFileSync('package.json', 'utf8'))
const copied = new Set()

/** Copies a declaration file, and those that it imports by relative paths. */
function copyTypes(path) {
  if (copied.has(path)) return
  copied.add(path)
  const text = readFileSync(`${path}.d.ts`, 'utf8')
  const copy = text.replace(/(?<=from\s*")(\.{1,2}\/[^"]*)\.js(?=")/g, (_, imported) => {
    copyTypes(join(dirname(path), imported))
    return `${imported}.cjs`
  })
  writeFileSync(`${path}.d.cts`, copy.replace(/\n\/\/# sourceMappingURL=.*/, ''))
}

for (const { require: entry } of Object.values(exports)) {
  if (entry === undefined) continue
  copyTypes(entry.types.replace(/\.d\.cts$/, ''))
  for (const file of new Set(Object.values(entry).filter((path) => /(?<!\.d)\.cjs$/.test(path))))
    writeFileSync(file, `'use strict'\nmodule.exports = require('./${basename(file, '.cjs')}.js')\n`)
}
