import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import { readBytes } from '../http/body.ts'
import {
  asArray,
  asInteger,
  asNumber,
  asObject,
  asString,
  describeJson,
  type JsonObject,
  JsonShapeError,
  optional,
  parseJson,
  required,
  tag,
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

/** A decoded pipeline request. */
export interface PipelineBody {
  readonly baton: string | null
  readonly requests: readonly PipelineRequest[]
}

/** A decoded cursor request. */
export interface CursorBody extends AwaitedIndex {
  readonly baton: string | null
  readonly steps: readonly BatchStep[]
}

/** Reads a body as text. @throws JsonShapeError unless it is UTF-8 */
export async function readText(body: Readable): Promise<string> {
  const bytes = await readBytes(body)
  if (!isUtf8(bytes)) throw new JsonShapeError('invalid unicode code point')
  return bytes.toString('utf8')
}

/** Decodes the body of a pipeline request. @throws JsonShapeError with the service's error message */
export function decodePipelineBody(text: string): PipelineBody {
  const body = asObject(parseJson(text), 'struct PipelineReqBody')
  const baton = optional(body, 'baton', asString)
  return { baton, requests: asArray(required(body, 'requests')).map(decodeRequest) }
}

/** Decodes the body of a cursor request. */
export function decodeCursorBody(text: string): CursorBody {
  const body = asObject(parseJson(text), 'struct CursorReqBody')
  const baton = optional(body, 'baton', asString)
  return { baton, ...decodeBatch(required(body, 'batch'), 2) }
}

function decodeRequest(value: unknown): PipelineRequest {
  const request = asObject(value, 'internally tagged enum StreamRequest')
  const type = tag(request, REQUEST_TYPES)
  switch (type) {
    case 'execute':
      return { type, statement: decodeStatement(required(request, 'stmt')) }
    case 'batch':
      // nesting: root, requests, request, batch
      return { type, ...decodeBatch(required(request, 'batch'), 4) }
    case 'sequence':
    case 'describe':
      return { type, replicationIndex: decodeIndex(request), ...decodeSqlReference(request) }
    case 'store_sql':
      return {
        type,
        sqlId: asI32(required(request, 'sql_id')),
        sql: asString(required(request, 'sql')),
      }
    case 'close_sql':
      return { type, sqlId: asI32(required(request, 'sql_id')) }
    case 'get_autocommit':
    case 'close':
      return { type }
    default:
      throw new JsonShapeError(`unknown variant \`${type}\``)
  }
}

const asI32 = (value: unknown): number => asInteger(value, 'i32')

function decodeSqlReference(object: JsonObject): SqlReference {
  return {
    sql: optional(object, 'sql', asString),
    sqlId: optional(object, 'sql_id', asI32),
  }
}

function decodeStatement(value: unknown): StatementRequest {
  const statement = asObject(value, 'struct Stmt')
  const wantRows = optional(statement, 'want_rows', asBoolean)
  const { args, named_args: namedArgs } = statement
  return {
    wantRows: wantRows === false ? false : undefined,
    replicationIndex: decodeIndex(statement),
    sql: optional(statement, 'sql', asString),
    sqlId: optional(statement, 'sql_id', asI32),
    args: args === undefined ? [] : asArray(args).map(decodeValue),
    namedArgs: namedArgs === undefined ? [] : asArray(namedArgs).map(decodeNamed),
  }
}

function asBoolean(value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw new JsonShapeError(`invalid type: ${describeJson(value)}, expected a boolean`)
}

function decodeIndex(object: JsonObject): string | undefined {
  return optional(object, 'replication_index', asIndex) ?? undefined
}

function asIndex(value: unknown): string {
  const isIndex =
    typeof value === 'string' ? /^\+?\d+$/.test(value) : Number.isInteger(value) && Number(value) >= 0
  if (isIndex) return String(BigInt(value as string | number))
  throw new JsonShapeError(`invalid type: ${describeJson(value)}, expected a replication index`)
}

function decodeNamed(value: unknown): readonly [string, EngineValue] {
  const named = asObject(value, 'struct NamedArg')
  return [asString(required(named, 'name')), decodeValue(required(named, 'value'))]
}

function decodeValue(value: unknown): EngineValue {
  const object = asObject(value, 'internally tagged enum Value')
  const type = tag(object, VALUE_TYPES)
  switch (type) {
    case 'null':
      return null
    case 'integer':
      return decodeInteger(required(object, 'value'))
    case 'float':
      return asNumber(required(object, 'value'))
    case 'text':
      return asString(required(object, 'value'))
    case 'blob':
      return decodeBlob(required(object, 'base64'))
    default:
      throw new JsonShapeError(`unknown variant \`${type}\``)
  }
}

function decodeInteger(value: unknown): bigint {
  const text = asString(value, 'a borrowed string')
  if (/^[+-]?\d+$/.test(text)) {
    const integer = BigInt(text.startsWith('+') ? text.slice(1) : text)
    if (integer >= MIN_INTEGER && integer <= MAX_INTEGER) return integer
  }
  throw new JsonShapeError(
    `invalid value: string ${JSON.stringify(text)}, expected decimal integer as a string`,
  )
}

function decodeBlob(value: unknown): Buffer {
  const text = asString(value, 'a borrowed string')
  const bare = text.replace(/=+$/, '')
  const bytes = Buffer.from(bare, 'base64')
  // Buffer skips invalid characters and ignores stray bits: the text is valid only if the bytes encode to it again
  if (bytes.toString('base64').replace(/=+$/, '') === bare) return bytes
  throw new JsonShapeError(
    `invalid value: string ${JSON.stringify(text)}, expected binary data encoded as base64`,
  )
}

function decodeBatch(value: unknown, depth: number): AwaitedIndex & { readonly steps: readonly BatchStep[] } {
  const batch = asObject(value, 'struct Batch')
  const steps = asArray(required(batch, 'steps')).map((entry) => {
    const step = asObject(entry, 'struct BatchStep')
    return {
      statement: decodeStatement(required(step, 'stmt')),
      // three levels deeper: steps, step, condition
      condition: optional(step, 'condition', (given) => decodeCondition(given, depth + 3)),
    }
  })
  return { replicationIndex: decodeIndex(batch), steps }
}

function decodeCondition(value: unknown, depth: number): Condition {
  if (depth > MAX_JSON_DEPTH) throw new JsonShapeError('recursion limit exceeded')
  const condition = asObject(value, 'internally tagged enum BatchCond')
  const type = tag(condition, CONDITION_TYPES)
  switch (type) {
    case 'ok':
    case 'error':
      return { type, step: asInteger(required(condition, 'step'), 'u32') }
    case 'not':
      return { type, condition: decodeCondition(required(condition, 'cond'), depth + 1) }
    case 'and':
    case 'or':
      return {
        type,
        conditions: asArray(required(condition, 'conds')).map((inner) => decodeCondition(inner, depth + 2)),
      }
    case 'is_autocommit':
      return { type }
    default:
      throw new JsonShapeError(`unknown variant \`${type}\``)
  }
}
