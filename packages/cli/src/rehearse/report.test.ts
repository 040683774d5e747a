import { expect, test } from 'vitest'
import { formatText, type Rehearsal } from './report.ts'

const REHEARSAL: Rehearsal = {
  command: ['migrate'],
  exit: 0,
  output: '',
  comparison: {
    created: [],
    changed: [],
    dropped: [],
    renamed: [],
    rows: [{ table: 'pet', before: 3, after: 3 }],
    types: [],
    values: [],
    losses: [],
    damage: [],
  },
  requests: 1,
  localMs: 1,
  roundTripMs: 1,
  longest: null,
  slowest: null,
  isSourceChanged: false,
  isSourceWritten: false,
  sourceError: null,
  losses: [],
}

test('a command without effects is said to have changed nothing only as far as it was measured', () => {
  expect(formatText(REHEARSAL)).toMatch(/^migrate succeeded; no change was found\n\nTime\n/)
})

test('values that were overwritten are a change', () => {
  const comparison = {
    ...REHEARSAL.comparison,
    types: ['pet.age: 1 text -> 1 integer'],
    values: ['pet.name'],
  }
  expect(formatText({ ...REHEARSAL, comparison })).toMatch(
    /^migrate succeeded\n\nValues\n {2}pet.age: 1 text -> 1 integer\n {2}pet.name: values changed\n\nTime\n/,
  )
})
