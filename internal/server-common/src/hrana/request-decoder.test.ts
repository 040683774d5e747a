import { describe, expect, test, vi } from 'vitest'
import { decodeCursorBody, decodePipelineBody } from './request-decoder.ts'
import { encodeCursorBody, encodePipelineBody } from './request-encoder.ts'

const PREFIX = 'Cannot deserialize client message from JSON: '

function decodeWithArgument(value: unknown) {
  return decodePipelineBody(
    JSON.stringify({ requests: [{ type: 'execute', stmt: { sql: 'SELECT ?', args: [value] } }] }),
  )
}

function decodeValue(value: unknown): unknown {
  const [request] = decodeWithArgument(value).requests
  return request?.type === 'execute' ? request.statement.args[0] : undefined
}

describe('values', () => {
  test.each([
    [{ type: 'null' }, null],
    [{ type: 'integer', value: '-9223372036854775808' }, -9223372036854775808n],
    [{ type: 'integer', value: '+007' }, 7n],
    [{ type: 'integer', value: '-0' }, 0n],
    [{ type: 'float', value: 1 }, 1],
    [{ type: 'float', value: '1.5' }, 1.5],
    [{ type: 'float', value: '-2e-3' }, -0.002],
    [{ type: 'text', value: 'a\0🙂' }, 'a\0🙂'],
    [{ type: 'blob', base64: 'AQ=====' }, Buffer.from([1])],
    [{ type: 'blob', base64: '' }, Buffer.alloc(0)],
  ])('%j', (value, expected) => expect(decodeValue(value)).toEqual(expected))

  test.each([
    [{ type: 'integer', value: 5 }, 'invalid type: integer `5`, expected a borrowed string'],
    [{ type: 'integer', value: '' }, 'invalid value: string "", expected decimal integer as a string'],
    [{ type: 'integer', value: '1.0' }, 'invalid value: string "1.0", expected decimal integer as a string'],
    [{ type: 'integer', value: '9223372036854775808' }, 'expected decimal integer as a string'],
    [{ type: 'float', value: '' }, 'invalid type: string "", expected f64'],
    [{ type: 'float', value: '0x10' }, 'invalid type: string "0x10", expected f64'],
    [{ type: 'float', value: 'NaN' }, 'invalid type: string "NaN", expected f64'],
    [{ type: 'float', value: '1e400' }, 'number out of range'],
    [{ type: 'float', value: null }, 'invalid type: null, expected f64'],
    [{ type: 'text', value: 5 }, 'invalid type: integer `5`, expected a string'],
    [{ type: 'text', value: 'a\ud800' }, 'unexpected end of hex escape'],
    [{ type: 'blob', base64: 'AQJ' }, 'expected binary data encoded as base64'],
    [{ type: 'blob', base64: 'AQ-_' }, 'expected binary data encoded as base64'],
    [{ type: 'blob', base64: 'A Q' }, 'expected binary data encoded as base64'],
    [{ type: 'blob', value: 'AQ' }, 'missing field `base64`'],
    [
      { type: 'bool', value: 1 },
      'unknown variant `bool`, expected one of `null`, `integer`, `float`, `text`, `blob`',
    ],
    [{}, 'missing field `type`'],
    [null, 'invalid type: null'],
  ])('rejects %j', (value, message) => {
    expect(() => decodeWithArgument(value)).toThrow(PREFIX)
    expect(() => decodeWithArgument(value)).toThrow(message)
  })

  test('rejects an integer of millions of digits without converting it, which would take seconds', () => {
    const convert = vi.spyOn(globalThis, 'BigInt')
    expect(() => decodeWithArgument({ type: 'integer', value: '9'.repeat(2_000_000) })).toThrow(PREFIX)
    expect(convert).not.toHaveBeenCalled()
  })

  test('rejects a number that a double cannot represent', () => {
    const body =
      '{"requests":[{"type":"execute","stmt":{"sql":"SELECT ?","args":[{"type":"float","value":1e400}]}}]}'
    expect(() => decodePipelineBody(body)).toThrow('number out of range')
  })
})

describe('bodies', () => {
  test('ignores unknown fields, and accepts null in nullable fields', () => {
    const stmt = { sql: 'SELECT 1', sql_id: null, want_rows: null, replication_index: null, x: [] }
    const body = { y: 1, baton: null, requests: [{ z: 2, stmt, type: 'execute' }] }
    expect(decodePipelineBody(JSON.stringify(body)).requests).toHaveLength(1)
  })

  test.each([
    ['', 'EOF while parsing'],
    ['{}', 'missing field `requests`'],
    ['{"requests":{}}', 'invalid type: map, expected a sequence'],
    ['{"baton":5,"requests":[]}', 'invalid type: integer `5`, expected a string'],
    ['{"requests":[{"type":"execute"}]}', 'missing field `stmt`'],
    [
      '{"requests":[{"type":"execute","stmt":{"sql":"x","args":null}}]}',
      'invalid type: null, expected a sequence',
    ],
    ['{"requests":[{"type":"store_sql","sql_id":2147483648,"sql":""}]}', 'expected i32'],
    ['{"requests":[{"type":"execute","stmt":{"sql":"a\u0001"}}]}', 'control character'],
  ])('%s', (body, message) => expect(() => decodePipelineBody(body)).toThrow(message))

  test('preserves a replication index given as a number or as text', () => {
    const stmt = { sql: 'SELECT 1', replication_index: '9007199254740993' }
    const requests = [
      { type: 'execute', stmt },
      { type: 'batch', batch: { replication_index: 7, steps: [{ stmt }] } },
      { type: 'describe', sql: 'SELECT 1', replication_index: '+8' },
    ]
    const reencoded = JSON.parse(encodePipelineBody(decodePipelineBody(JSON.stringify({ requests }))))
    expect(reencoded.requests).toMatchObject([
      { stmt: { replication_index: '9007199254740993' } },
      { batch: { replication_index: '7', steps: [{ stmt: { replication_index: '9007199254740993' } }] } },
      { replication_index: '8' },
    ])
    const cursor = { batch: { replication_index: '9', steps: [{ stmt }] } }
    expect(JSON.parse(encodeCursorBody(decodeCursorBody(JSON.stringify(cursor))))).toMatchObject({
      batch: { replication_index: '9' },
    })
    for (const replication_index of [-1, '9'.repeat(101)]) {
      const invalidBody = JSON.stringify({ requests: [{ type: 'describe', replication_index }] })
      expect(() => decodePipelineBody(invalidBody)).toThrow('expected a replication index')
    }
  })

  test('allows conditions to be nested up to 120 levels deep', () => {
    const createBody = (depth: number) => {
      let condition: object = { type: 'is_autocommit' }
      for (let level = 0; level < depth; level += 1) condition = { type: 'not', cond: condition }
      const steps = [{ stmt: { sql: 'SELECT 1' }, condition }]
      return JSON.stringify({ requests: [{ type: 'batch', batch: { steps } }] })
    }
    expect(decodePipelineBody(createBody(120)).requests).toHaveLength(1)
    expect(() => decodePipelineBody(createBody(121))).toThrow('recursion limit exceeded')
  })
})
