import { expect, test } from 'vitest'
import { splitScript } from './split-script.ts'

const split = (script: string) =>
  splitScript(script).map((segment) =>
    'command' in segment
      ? `${segment.line}:${segment.command}`
      : segment.statements.map(({ sql, line, column }) => `${line}:${column}:${sql}`),
  )

test('a line that begins with a dot is a command only after a complete statement', () => {
  expect(split('.tables')).toEqual(['1:.tables'])
  expect(split("select 1;\n  .read o'brien.sql\nselect\n.5;\n.quit")).toEqual([
    ['1:1:select 1'],
    "2:.read o'brien.sql",
    ['3:1:select\n.5'],
    '5:.quit',
  ])
  expect(split("insert into t values ('\n.tables\n');\n.schema t")).toEqual([
    ["1:1:insert into t values ('\n.tables\n')"],
    '4:.schema t',
  ])
  expect(split('select a\n.b from a')).toEqual([['1:1:select a\n.b from a']])
  expect(split('-- comment\n.tables\n/* x */ select 2')).toEqual(['2:.tables', ['3:9:select 2']])
  expect(split('')).toEqual([])
  expect(() => split(".tables\nselect 'x")).toThrow('line 2, column 8: unterminated quote')
  expect(() => split('select 1;\n.a\n.b\n\n /* x')).toThrow('line 5, column 2: unterminated comment')
})

test('a long text with many such lines is scanned a bounded number of times', () => {
  const script = `insert into t values ('${'\n.x'.repeat(200_000)}');`
  const [segment] = splitScript(script)
  expect(segment !== undefined && 'statements' in segment && segment.statements).toHaveLength(1)
})
