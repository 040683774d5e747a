// Gives the package of the current folder what CommonJS needs beside its ES modules, as its `exports` name it under `require`:
// a module that loads the ES module, of which there is one instance then, and a copy of its declarations. TypeScript up to
// `module: node18` refuses to `require` declarations of an ES module, although node does it.
import { readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

const { exports } = JSON.parse(readFileSync('package.json', 'utf8'))
const written = new Set()

/** Copies a declaration file, and those that it imports by relative paths. */
function copyTypes(path) {
  if (written.has(path)) return
  written.add(path)
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
