import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as core from '@batonsql/core'
import * as platform from '@batonsql/platform'
import { expect, test } from 'vitest'

const source = fileURLToPath(new URL('../../packages/core/src', import.meta.url))
const page = readFileSync(join(source, '../docs/errors.md'), 'utf8')
const sources = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
  .map((file) => readFileSync(join(source, file), 'utf8'))

/** Codes that stand in core: those of several words anywhere, those of one word where a code is given. */
const codes = new Set(
  sources.flatMap((text) => [
    ...[...text.matchAll(/'([A-Z]+(?:_[A-Z]+)+)'/g)].map(([, code = '']) => code),
    ...[...text.matchAll(/code(?:: | = )((?:'[A-Z_]+'(?: \| )?)+)/g)].flatMap(
      ([, union = '']) => union.match(/[A-Z_]+/g) ?? [],
    ),
  ]),
)

test('every code of core has an entry that says what to do', () => {
  expect([...codes]).toEqual(
    expect.arrayContaining([
      'NETWORK',
      'PROTOCOL',
      'DECODE',
      'RESTORE_STOPPED',
      'STREAM_EXPIRED',
      'TRANSACTION_LOST',
      'QUEUE_FULL',
    ]),
  )
  const entries = [...page.matchAll(/^### `([A-Z_]+)`.*\n\n(.+)/gm)].map(([, code, text]) => [code, text])
  const described = new Set(entries.map(([code]) => code))
  expect([...codes].filter((code) => !described.has(code))).toEqual([])
})

test('every class of errors is on the page', () => {
  const classes = [...Object.keys(core), ...Object.keys(platform)].filter((name) =>
    /^[A-Z]\w*Error$/.test(name),
  )
  expect(classes.length).toBeGreaterThan(15)
  expect(classes.filter((name) => !page.includes(name))).toEqual([])
})
