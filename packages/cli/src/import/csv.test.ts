import { DatabaseSync } from 'node:sqlite'
import { RealValue, type Value } from '@batonsql/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { formatCsvRow } from '../result-text.ts'
import { affinityOf, BadValueError, TypeInference, toValue } from './column-types.ts'
import { type Cell, QuotedText, readCsv } from './csv-records.ts'

/** Yields a text in chunks of these lengths, over and over. */
async function* inChunks(text: string, length: number): AsyncGenerator<string> {
  for (let start = 0; start < text.length; start += length) yield text.slice(start, start + length)
}

async function parse(text: string, delimiter = ',', chunkLength = text.length) {
  const records = []
  for await (const record of readCsv(inChunks(text, chunkLength), delimiter)) records.push(record)
  return records
}

describe('readCsv', () => {
  test('distinguishes empty cells, empty texts and quoted texts, and counts lines in cells', async () => {
    const text = 'a,"b"\r\n1,"x\r\ny"\n,""\n\n"say ""hi""",2'
    for (const length of [1, 2, 3, 100])
      expect(await parse(text, ',', length)).toEqual([
        { line: 1, cells: ['a', new QuotedText('b')] },
        { line: 2, cells: ['1', new QuotedText('x\r\ny')] },
        { line: 4, cells: [null, new QuotedText('')] },
        { line: 5, cells: [null] },
        { line: 6, cells: [new QuotedText('say "hi"'), '2'] },
      ])
  })

  test.each([
    ['a\n"b', 'line 2: a quote is not closed'],
    ['a\n"b"c', 'line 2: a closing quote is followed by text'],
    ['a\n"x\r\ny"\nb"c"', 'line 4: a quote in a cell without quotes'],
  ])('%j is rejected with the line of its row', async (text, message) => {
    await expect(parse(text)).rejects.toThrow(message)
  })

  test('an error of the source is thrown', async () => {
    async function* failing(): AsyncGenerator<string> {
      yield 'a,b\n1,2\n'
      throw new Error('the disk failed')
    }
    const read = async (): Promise<void> => {
      for await (const _ of readCsv(failing(), ',')) continue
    }
    await expect(read()).rejects.toThrow('the disk failed')
  })
})

const textOf = (cell: Cell): string | null => (cell instanceof QuotedText ? cell.text : cell)

/** Stores cells in a new column with the inferred type. @returns the type, and the values as SQLite returns them */
function store(cells: readonly Cell[]): { type: string; values: Value[] } {
  const inference = new TypeInference()
  for (const cell of cells) inference.add(cell)
  const { type } = inference
  using db = new DatabaseSync(':memory:')
  db.exec(`create table t (a ${type})`)
  const insert = db.prepare('insert into t values (?)')
  for (const cell of cells) {
    const value = toValue(cell, affinityOf(type))
    insert.run(value instanceof RealValue ? value.value : value)
  }
  const select = db.prepare('select a, typeof(a) as type from t order by rowid')
  select.setReadBigInts(true)
  return { type, values: select.all().map((row) => row['a'] as Value) }
}

const numberLike = fc.oneof(
  fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n }).map(String),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  fc.stringMatching(/^[-+]?0{0,2}\d{0,3}(?:\.\d{0,3})?(?:e[-+]?\d)?$/),
  fc.constantFrom(
    '007',
    '1.10',
    '-0',
    '-0.0',
    '1e300',
    '9007199254740993',
    '9223372036854775808',
    '0x10',
    ' 1',
    '.5',
    '5.',
  ),
)

test('a value keeps its text, whatever the other values of its column are', () => {
  const cell: fc.Arbitrary<Cell> = fc.oneof(
    numberLike.map((text) => text || null),
    numberLike.map((text) => new QuotedText(text)),
    fc.constant(null),
    fc.string().map((text) => new QuotedText(text.replaceAll('\u0000', ''))),
  )
  fc.assert(
    fc.property(fc.array(cell, { minLength: 1, maxLength: 5 }), (cells) => {
      const { values } = store(cells)
      for (const [index, value] of values.entries()) {
        const written = formatCsvRow([value]).slice(0, -1)
        const text = typeof value === 'string' ? value : value === null ? null : written
        expect(text).toBe(textOf(cells[index] as Cell))
      }
    }),
    { numRuns: 2_000 },
  )
})

test('values of one type are exported and imported exactly', async () => {
  const column: fc.Arbitrary<(bigint | number | string | null)[]> = fc.oneof(
    fc.array(fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })), {
      minLength: 1,
      maxLength: 5,
    }),
    fc.array(fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0)), {
      minLength: 1,
      maxLength: 5,
    }),
    fc.array(
      fc.option(
        fc.oneof(fc.string({ unit: 'binary' }), numberLike, fc.constantFrom('a\r\nb', '"', ',', '\ufeff')),
      ),
      { minLength: 1, maxLength: 5 },
    ),
  )
  await fc.assert(
    fc.asyncProperty(column, async (values) => {
      fc.pre(values.every((value) => typeof value !== 'string' || !value.includes('\u0000')))
      const csv = values.map((value) => formatCsvRow([value])).join('')
      const cells = (await parse(csv)).map((record) => record.cells[0] as Cell)
      expect(store(cells).values).toEqual(values)
    }),
    { numRuns: 1_000 },
  )
})

test('affinities follow the rules of SQLite', () => {
  const types = [
    'INT',
    'bigint',
    'VARCHAR(10)',
    'CHARINT',
    'BLOB',
    '',
    'DOUBLE PRECISION',
    'FLOATING POINT',
    'DATE',
    'NUMERIC(10,5)',
  ]
  // what a column of the type makes of three texts tells its affinity
  const probe = (type: string): string => {
    using db = new DatabaseSync(':memory:')
    db.exec(`create table t (a ${type}); insert into t values ('1'), ('1.5'), (2)`)
    const kinds = db
      .prepare('select typeof(a) as kind from t')
      .all()
      .map((row) => row['kind'])
    const names: Record<string, string> = {
      'integer,real,integer': 'INTEGER or NUMERIC',
      'real,real,real': 'REAL',
      'text,text,text': 'TEXT',
      'text,text,integer': 'BLOB',
    }
    return names[kinds.join()] ?? kinds.join()
  }
  for (const type of types) {
    const affinity = affinityOf(type)
    expect(affinity === 'INTEGER' || affinity === 'NUMERIC' ? 'INTEGER or NUMERIC' : affinity).toBe(
      probe(type),
    )
  }
})

test.each<[Cell, string, ReturnType<typeof toValue>]>([
  ['1.50', 'REAL', new RealValue(1.5)],
  ['1.0', '', new RealValue(1)],
  ['2024-01-01', 'DATE', '2024-01-01'],
  ['x', 'VARCHAR', 'x'],
  ['007', 'TEXT', '007'],
  [new QuotedText('7'), 'INTEGER', 7n],
  [null, 'INTEGER', null],
])('%j is stored in a column of type %s', (cell, type, value) => {
  expect(toValue(cell, affinityOf(type))).toEqual(value)
})

test.each<[string, string]>([
  ['007', 'INTEGER'],
  ['007', 'DATE'],
  ['9223372036854775808', 'INTEGER'],
  ['0.12345678901234567891', 'REAL'],
  ['1e999', 'REAL'],
  ['abc', 'REAL'],
  ['+1', 'NUMERIC'],
  [' 1', 'NUMERIC'],
])('%j is rejected by a column of type %s', (text, type) => {
  expect(() => toValue(text, affinityOf(type))).toThrow(BadValueError)
})
