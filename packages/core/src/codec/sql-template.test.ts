import { expect, test } from 'vitest'
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
    /^parameter 1: a value of type object cannot be stored/,
  )
  const missing = undefined as unknown as null
  expect(() => encodeStatement(sql`select ${1}, ${missing}`)).toThrow(/^parameter 2: undefined/)
  expect(() => encodeStatement(sql`select ${[1] as unknown as null}`)).toThrow(
    /^parameter 1: a value of type object/,
  )
})

test.each([['select 1'], [['select 1']], [undefined]])('cannot be called as a function: %j', (argument) => {
  expect(() => sql(argument as unknown as TemplateStringsArray)).toThrow('sql is a template tag')
})
