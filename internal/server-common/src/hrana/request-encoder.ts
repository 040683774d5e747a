import type {
  AwaitedIndex,
  BatchStep,
  Condition,
  EngineValue,
  PipelineRequest,
  StatementRequest,
} from './pipeline-types.ts'
import type { CursorBody, PipelineBody } from './request-decoder.ts'

/** Encodes a pipeline request in canonical form, which all parsers read the same way. */
export function encodePipelineBody({ baton, requests }: PipelineBody): string {
  return `{${batonField(baton)}"requests":[${encodeList(requests, encodeRequest)}]}`
}

export function encodeCursorBody({ baton, ...batch }: CursorBody): string {
  return `{${batonField(baton)}"batch":${encodeBatch(batch)}}`
}

function batonField(baton: string | null): string {
  return baton === null ? '' : `"baton":${JSON.stringify(baton)},`
}

function encodeRequest(request: PipelineRequest): string {
  switch (request.type) {
    case 'execute':
      return `{"type":"execute","stmt":${encodeStatement(request.statement)}}`
    case 'batch':
      return `{"type":"batch","batch":${encodeBatch(request)}}`
    case 'sequence':
    case 'describe':
      return JSON.stringify({
        type: request.type,
        sql: request.sql,
        sql_id: request.sqlId,
        replication_index: request.replicationIndex,
      })
    case 'store_sql':
      return JSON.stringify({ type: request.type, sql_id: request.sqlId, sql: request.sql })
    case 'close_sql':
      return JSON.stringify({ type: request.type, sql_id: request.sqlId })
    case 'get_autocommit':
    case 'close':
      return JSON.stringify({ type: request.type })
    default:
      return request satisfies never
  }
}

function encodeBatch({
  steps,
  replicationIndex,
}: AwaitedIndex & { readonly steps: readonly BatchStep[] }): string {
  return `{${indexField(replicationIndex)}"steps":[${encodeList(steps, encodeStep)}]}`
}

function encodeStep({ statement, condition }: BatchStep): string {
  const conditionField = condition === null ? '' : `,"condition":${encodeCondition(condition)}`
  return `{"stmt":${encodeStatement(statement)}${conditionField}}`
}

/** Joins encoded items. Appending to one string takes half the time of joining an array, for the steps of a long batch. */
function encodeList<Item>(items: readonly Item[], encode: (item: Item) => string): string {
  let text = ''
  for (const item of items) text += text === '' ? encode(item) : `,${encode(item)}`
  return text
}

function indexField(index: string | undefined): string {
  return index === undefined ? '' : `"replication_index":"${index}",`
}

function encodeCondition(condition: Condition): string {
  switch (condition.type) {
    case 'ok':
    case 'error':
      return `{"type":"${condition.type}","step":${condition.step}}`
    case 'not':
      return `{"type":"not","cond":${encodeCondition(condition.condition)}}`
    case 'and':
    case 'or':
      return `{"type":"${condition.type}","conds":[${encodeList(condition.conditions, encodeCondition)}]}`
    case 'is_autocommit':
      return '{"type":"is_autocommit"}'
    default:
      return condition satisfies never
  }
}

function encodeStatement({ sql, sqlId, args, namedArgs, replicationIndex }: StatementRequest): string {
  const reference = `"sql":${JSON.stringify(sql)},"sql_id":${sqlId}`
  const values = `"args":[${encodeList(args, encodeValue)}],"named_args":[${encodeList(namedArgs, encodeNamedArg)}]`
  return `{${indexField(replicationIndex)}${reference},${values}}`
}

function encodeNamedArg([name, value]: StatementRequest['namedArgs'][number]): string {
  return `{"name":${JSON.stringify(name)},"value":${encodeValue(value)}}`
}

function encodeValue(value: EngineValue): string {
  if (value === null) return '{"type":"null"}'
  if (typeof value === 'bigint') return `{"type":"integer","value":"${value}"}`
  if (typeof value === 'number') return `{"type":"float","value":${encodeFloat(value)}}`
  if (typeof value === 'string') return `{"type":"text","value":${JSON.stringify(value)}}`
  return `{"type":"blob","base64":"${Buffer.from(value).toString('base64')}"}`
}

/** Encodes a float; JSON.stringify loses the sign of zero. */
function encodeFloat(value: number): string {
  return Object.is(value, -0) ? '-0.0' : JSON.stringify(value)
}
