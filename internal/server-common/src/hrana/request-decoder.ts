import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import { readRequestBody } from '../http/request-body.ts'
import {
  asArray,
  asInteger,
  asNumber,
  asObject,
  asString,
  describeJson,
  type JsonObject,
  JsonShapeError,
  optionalField,
  parseJson,
  readTag,
  requireField,
} from './json-shape.ts'
import type {
  AwaitedIndex,
  BatchStep,
  Condition,
  EngineValue,
  PipelineRequest,
  SqlReference,
  StatementRequest,
} from './pipeline-types.ts'

/** Maximum nesting of arrays and objects, including the outermost object. */
const MAX_JSON_DEPTH = 127
const MIN_INTEGER = -(2n ** 63n)
const MAX_INTEGER = 2n ** 63n - 1n

const REQUEST_TYPES = [
  'close',
  'execute',
  'batch',
  'sequence',
  'describe',
  'store_sql',
  'close_sql',
  'get_autocommit',
] as const
const CONDITION_TYPES = ['ok', 'error', 'not', 'and', 'or', 'is_autocommit'] as const
const VALUE_TYPES = ['null', 'integer', 'float', 'text', 'blob'] as const

export interface PipelineBody {
  readonly baton: string | null
  readonly requests: readonly PipelineRequest[]
}

export interface CursorBody extends AwaitedIndex {
  readonly baton: string | null
  readonly steps: readonly BatchStep[]
}

/** Reads a body as text. @throws JsonShapeError unless it is UTF-8 */
export async function readBodyText(body: Readable): Promise<string> {
  const bytes = await readRequestBody(body)
  if (!isUtf8(bytes)) throw new JsonShapeError('invalid unicode code point')
  return bytes.toString('utf8')
}

/** Decodes the body of a pipeline request. @throws JsonShapeError with the service's error message */
export function decodePipelineBody(text: string): PipelineBody {
  const body = asObject(parseJson(text), 'struct PipelineReqBody')
  const baton = optionalField(body, 'baton', asString)
  return { baton, requests: asArray(requireField(body, 'requests')).map(decodeRequest) }
}

export function decodeCursorBody(text: string): CursorBody {
  const body = asObject(parseJson(text), 'struct CursorReqBody')
  const baton = optionalField(body, 'baton', asString)
  return { baton, ...decodeBatch(requireField(body, 'batch'), 2) }
}

function decodeRequest(value: unknown): PipelineRequest {
  const request = asObject(value, 'internally tagged enum StreamRequest')
  const type = readTag(request, REQUEST_TYPES)
  switch (type) {
    case 'execute':
      return { type, statement: decodeStatement(requireField(request, 'stmt')) }
    case 'batch':
      // nesting: root, requests, request, batch
      return { type, ...decodeBatch(requireField(request, 'batch'), 4) }
    case 'sequence':
    case 'describe':
      return { type, replicationIndex: decodeIndex(request), ...decodeSqlReference(request) }
    case 'store_sql':
      return {
        type,
        sqlId: asI32(requireField(request, 'sql_id')),
        sql: asString(requireField(request, 'sql')),
      }
    case 'close_sql':
      return { type, sqlId: asI32(requireField(request, 'sql_id')) }
    case 'get_autocommit':
    case 'close':
      return { type }
    default:
      return type satisfies never
  }
}

const asI32 = (value: unknown): number => asInteger(value, 'i32')

function decodeSqlReference(object: JsonObject): SqlReference {
  return {
    sql: optionalField(object, 'sql', asString),
    sqlId: optionalField(object, 'sql_id', asI32),
  }
}

function decodeStatement(value: unknown): StatementRequest {
  const statement = asObject(value, 'struct Stmt')
  const wantRows = optionalField(statement, 'want_rows', asBoolean)
  const { args, named_args: namedArgs } = statement
  return {
    wantRows: wantRows === false ? false : undefined,
    replicationIndex: decodeIndex(statement),
    sql: optionalField(statement, 'sql', asString),
    sqlId: optionalField(statement, 'sql_id', asI32),
    args: args === undefined ? [] : asArray(args).map(decodeValue),
    namedArgs: namedArgs === undefined ? [] : asArray(namedArgs).map(decodeNamedArg),
  }
}

function asBoolean(value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw new JsonShapeError(`invalid type: ${describeJson(value)}, expected a boolean`)
}

function decodeIndex(object: JsonObject): string | undefined {
  return optionalField(object, 'replication_index', asIndex) ?? undefined
}

function asIndex(value: unknown): string {
  const isIndex =
    typeof value === 'string' ? /^\+?\d{1,100}$/.test(value) : Number.isInteger(value) && Number(value) >= 0
  if (isIndex) return String(BigInt(value as string | number))
  throw new JsonShapeError(`invalid type: ${describeJson(value)}, expected a replication index`)
}

function decodeNamedArg(value: unknown): readonly [string, EngineValue] {
  const namedArg = asObject(value, 'struct NamedArg')
  return [asString(requireField(namedArg, 'name')), decodeValue(requireField(namedArg, 'value'))]
}

function decodeValue(value: unknown): EngineValue {
  const object = asObject(value, 'internally tagged enum Value')
  const type = readTag(object, VALUE_TYPES)
  switch (type) {
    case 'null':
      return null
    case 'integer':
      return decodeInteger(requireField(object, 'value'))
    case 'float':
      return asNumber(requireField(object, 'value'))
    case 'text':
      return asString(requireField(object, 'value'))
    case 'blob':
      return decodeBlob(requireField(object, 'base64'))
    default:
      return type satisfies never
  }
}

function decodeInteger(value: unknown): bigint {
  const text = asString(value, 'a borrowed string')
  // the conversion of millions of digits would take seconds
  if (/^[+-]?\d{1,100}$/.test(text)) {
    const integer = BigInt(text.startsWith('+') ? text.slice(1) : text)
    if (integer >= MIN_INTEGER && integer <= MAX_INTEGER) return integer
  }
  throw new JsonShapeError(
    `invalid value: string ${JSON.stringify(text)}, expected decimal integer as a string`,
  )
}

function decodeBlob(value: unknown): Buffer {
  const text = asString(value, 'a borrowed string')
  // not with a regular expression: `/=+$/` takes quadratic time for text with many `=`
  let end = text.length
  while (text[end - 1] === '=') end -= 1
  const unpadded = text.slice(0, end)
  const bytes = Buffer.from(unpadded, 'base64')
  // Buffer skips invalid characters and ignores stray bits: the text is valid only if the bytes encode to it again
  if (bytes.toString('base64').replace(/=+$/, '') === unpadded) return bytes
  throw new JsonShapeError(
    `invalid value: string ${JSON.stringify(text)}, expected binary data encoded as base64`,
  )
}

function decodeBatch(value: unknown, depth: number): AwaitedIndex & { readonly steps: readonly BatchStep[] } {
  const batch = asObject(value, 'struct Batch')
  const steps = asArray(requireField(batch, 'steps')).map((entry) => {
    const step = asObject(entry, 'struct BatchStep')
    return {
      statement: decodeStatement(requireField(step, 'stmt')),
      // three levels deeper: steps, step, condition
      condition: optionalField(step, 'condition', (inner) => decodeCondition(inner, depth + 3)),
    }
  })
  return { replicationIndex: decodeIndex(batch), steps }
}

function decodeCondition(value: unknown, depth: number): Condition {
  if (depth > MAX_JSON_DEPTH) throw new JsonShapeError('recursion limit exceeded')
  const condition = asObject(value, 'internally tagged enum BatchCond')
  const type = readTag(condition, CONDITION_TYPES)
  switch (type) {
    case 'ok':
    case 'error':
      return { type, step: asInteger(requireField(condition, 'step'), 'u32') }
    case 'not':
      return { type, condition: decodeCondition(requireField(condition, 'cond'), depth + 1) }
    case 'and':
    case 'or':
      return {
        type,
        conditions: asArray(requireField(condition, 'conds')).map((inner) =>
          decodeCondition(inner, depth + 2),
        ),
      }
    case 'is_autocommit':
      return { type }
    default:
      return type satisfies never
  }
}
