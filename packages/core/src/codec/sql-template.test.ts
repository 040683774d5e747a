import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type SqlFragment, sql } from './sql-template.ts'
import { encodeStatement } from './statement.ts'

const getParts = ({ sql: text, args }: SqlFragment): [string, readonly unknown[]] => [text, args]

test('values become arguments, in order', () => {
  const blob = new Uint8Array([1])
  expect(getParts(sql`insert into t values (${1}, ${'a'}, ${null}, ${2n ** 60n}, ${blob})`)).toEqual([
    'insert into t values (?, ?, ?, ?, ?)',
    [1, 'a', null, 2n ** 60n, blob],
  ])
  expect(getParts(sql``)).toEqual(['', []])
  expect(getParts(sql`${1}`)).toEqual(['?', [1]])
})

test('fragments become text, with their arguments in place', () => {
  const older = sql`age > ${30}`
  const named = sql`name like ${'A%'} and ${older}`
  expect(getParts(sql`select ${0} from pet where ${named} limit ${5}`)).toEqual([
    'select ? from pet where name like ? and age > ? limit ?',
    [0, 'A%', 30, 5],
  ])
  expect(getParts(older)).toEqual(['age > ?', [30]])
})

test('lists are joined', () => {
  expect(getParts(sql`id in (${sql.join([1, 2, 3])})`)).toEqual(['id in (?, ?, ?)', [1, 2, 3]])
  expect(getParts(sql`id in (${sql.join([])})`)).toEqual(['id in ()', []])
  const conditions = [sql`a = ${1}`, sql`b = ${2}`]
  expect(getParts(sql.join(conditions, sql` or `))).toEqual(['a = ? or b = ?', [1, 2]])
  expect(getParts(sql.join([1, 2], sql` + ${0} + `))).toEqual(['? + ? + ?', [1, 0, 2]])
  expect(sql.join(Array.from({ length: 200_000 }, (_, index) => index)).args).toHaveLength(200_000)
})

test('names are quoted', () => {
  expect(getParts(sql`select ${sql.identifier('order')} from ${sql.identifier('main', 'a"b')}`)).toEqual([
    'select "order" from "main"."a""b"',
    [],
  ])
})

test('a digit after a value does not become part of its placeholder', () => {
  expect(sql`select ${1}0`.sql).toBe('select ? 0')
  expect(sql`select ${1}${sql`2`}`.sql).toBe('select ? 2')
  expect(sql.join([1, sql`2`], sql``).sql).toBe('? 2')
})

test('an object that looks like a fragment is a value, which is rejected', () => {
  const lookalike = JSON.parse('{"sql":"1; drop table pet","args":[]}')
  expect(() => encodeStatement(sql`select ${lookalike}`)).toThrow(
    /^parameter 1: a value of type Object cannot be stored/,
  )
  const missing = undefined as unknown as null
  expect(() => encodeStatement(sql`select ${1}, ${missing}`)).toThrow(/^parameter 2: undefined/)
  expect(() => encodeStatement(sql`select ${[1] as unknown as null}`)).toThrow(
    /^parameter 1: a value of type Array/,
  )
})

test.each([['select 1'], [['select 1']], [undefined]])('cannot be called as a function: %j', (argument) => {
  expect(() => sql(argument as unknown as TemplateStringsArray)).toThrow('sql is a template tag')
})

describe('text with an invalid escape is rejected', () => {
  const escapes = ['u', 'users', 'u12', 'u{110000}', 'u{', 'x', 'xg', 'x1', '1', '9', '01'] as const
  const tag = (text: string): (() => SqlFragment) =>
    // the only way to generate such templates
    // oxlint-disable-next-line typescript/no-implied-eval
    new Function('sql', `return () => sql\`${text}\``)(sql) as () => SqlFragment

  test.each(escapes)('\\%s', (escape) => {
    expect(tag(`select '\\\\${escape}'`)().sql).toBe(`select '\\${escape}'`)
    expect(tag(`select '\\${escape}'`)).toThrow(/^text 1 of the template has an invalid escape: select/)
    expect(tag(`select \${1}, '\\${escape}'`)).toThrow(/^text 2 .*or pass the text as a value\)$/)
    expect(tag(`select \${sql\`'\\${escape}'\`}`)).toThrow(TypeError)
  })

  test('a statement never has less text than its template', () => {
    const piece = fc.constantFrom('\\', 'u', 'x', 'n', '{', '}', '0', '1', '41', "'", ' ', '${1}')
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const source = pieces.join('')
        // outside of a tag, JavaScript itself rejects the same text
        // oxlint-disable-next-line typescript/no-implied-eval
        const isValid = attempt(() => new Function(`return \`${source}\``)) !== null
        expect(attempt(() => tag(source)()) !== null, source).toBe(isValid)
      }),
    )
  })
})

function attempt<T>(run: () => T): T | null {
  try {
    return run()
  } catch {
    return null
  }
}

test.each<[name: string, run: () => unknown, message: string]>([
  [
    'a name of another type',
    () => sql.identifier(5 as never),
    'names as strings, not a value of type number',
  ],
  ['names in an array', () => sql.identifier(['a'] as never), 'names as strings, not a value of type Array'],
  ['no name', () => sql.identifier(), 'names as strings, not undefined'],
  ['a set', () => sql.join(new Set([1]) as never), 'sql.join expects an array'],
  ['a string', () => sql.join('abc' as never), 'sql.join expects an array'],
  ['a separator that is not a template', () => sql.join([1, 2], ' or ' as never), 'separator of sql.join'],
])('%s is rejected', (_, run, message) => {
  expect(run).toThrow(TypeError)
  expect(run).toThrow(message)
})

test('a hole in a list is not skipped', () => {
  // oxlint-disable-next-line no-sparse-arrays
  expect(() => encodeStatement(sql.join([, 1] as never))).toThrow(/^parameter 1: undefined/)
})
