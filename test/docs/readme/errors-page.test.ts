import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as core from '@batonsql/core'
import * as platform from '@batonsql/platform'
import { describe, expect, test } from 'vitest'

const CORE = {
  folder: 'core',
  page: 'docs/errors.md',
  module: core,
  minClassCount: 5,
  knownCodes: ['PROTOCOL', 'QUEUE_FULL'],
}
const PLATFORM = {
  folder: 'platform',
  page: 'README.md',
  module: platform,
  minClassCount: 1,
  knownCodes: ['HTTP_STATUS', 'NETWORK', 'TIMEOUT', 'ABORTED', 'DECODE', 'MISMATCH'],
}

describe.each([CORE, PLATFORM])('$folder', ({ folder, page: name, module, minClassCount, knownCodes }) => {
  const sourceFolder = fileURLToPath(new URL(`../../../packages/${folder}/src`, import.meta.url))
  const page = readFileSync(join(sourceFolder, `../${name}`), 'utf8')
  const sources = readdirSync(sourceFolder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .map((file) => readFileSync(join(sourceFolder, file), 'utf8'))
  /** Codes in the sources: multi-word codes anywhere, and single-word codes only where a code is expected. */
  const codes = new Set(
    sources.flatMap((text) => [
      ...[...text.matchAll(/'([A-Z]+(?:_[A-Z]+)+)'/g)].map(([, code = '']) => code),
      ...[...text.matchAll(/code(?:: | = )((?:'[A-Z_]+'(?: \| )?)+)/g)].flatMap(
        ([, union = '']) => union.match(/[A-Z_]+/g) ?? [],
      ),
    ]),
  )

  test('every code has an entry that states what to do', () => {
    expect([...codes]).toEqual(expect.arrayContaining(knownCodes))
    const entries = [...page.matchAll(/^### `([A-Z_]+)`.*\n\n(.+)/gm)].map(([, code, text]) => [code, text])
    const described = new Set(entries.map(([code]) => code))
    expect([...codes].filter((code) => !described.has(code))).toEqual([])
  })

  test('every error class is on the page', () => {
    const exported = Object.keys(module).filter((name) => /^[A-Z]\w*Error$/.test(name))
    expect(exported.length).toBeGreaterThanOrEqual(minClassCount)
    expect(exported.filter((name) => !page.includes(name))).toEqual([])
  })
})
