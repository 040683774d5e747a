import { expect, test } from 'vitest'
import { exchangedReturning } from './lossless-rows.ts'
import { parseStatements, type Statement } from './statement.ts'

const columns = (...names: string[]) => names.map((name) => ({ name, type: null }))

test('the items of a RETURNING list are kept apart, stars are spelt out, volatile ones left alone', () => {
  const sql = `INSERT INTO t VALUES ('returning') RETURNING *, max(a, 'x,y') AS m, random(), "b""c"`
  const [statement] = parseStatements(sql)
  const changed = exchangedReturning(statement as Statement, columns('a', 'b"c', 'm', 'random()', 'b"c'))
  const items = [...changed.matchAll(/AS? ?\(SELECT (.*?)\n\)/g)].map((match) => match[1])
  expect(items).toEqual(['"a"', '"b""c"', "max(a, 'x,y') AS m", '"b""c"'])
  expect(changed).toContain(',random(),')
  expect(changed.startsWith("INSERT INTO t VALUES ('returning') RETURNING (")).toBe(true)
})
