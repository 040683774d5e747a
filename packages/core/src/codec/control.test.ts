import { expect, test } from 'vitest'
import { parseBegin } from './control.ts'

test.each([
  ['begin', 'BEGIN DEFERRED', false],
  ['BEGIN /* not immediate */ transaction', 'BEGIN DEFERRED', false],
  ['/* exclusive */ begin deferred', 'BEGIN DEFERRED', false],
  ['begin\nimmediate transaction "t";', 'BEGIN IMMEDIATE', true],
  ["; begin exclusive transaction 't'", 'BEGIN EXCLUSIVE', true],
  ['begin concurrent', 'BEGIN CONCURRENT', false],
  ['readonly', 'BEGIN READONLY', false],
  [undefined, 'BEGIN IMMEDIATE', true],
])('%j begins a transaction with %s', (mode, sql, needsWriteLock) => {
  expect(parseBegin(mode)).toMatchObject({ sql, needsWriteLock, kind: 'begin' })
})

test.each(['exclusive', 'IMMEDIATE', '__proto__', ''])('%j is not a mode', (mode) => {
  expect(() => parseBegin(mode)).toThrow(TypeError)
})
