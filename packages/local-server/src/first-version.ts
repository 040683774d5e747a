/*
 * The routes of the protocol's first version, which old clients use: each request becomes a pipeline, so that rights,
 * limits and counters are the same, and the answer is written in the old form.
 */
import { Readable } from 'node:stream'
import { text as readAll } from 'node:stream/consumers'
import { floatText } from './embedded/engine/float-text.ts'
import { logWords } from './embedded/engine/result-error.ts'
import { firstStatement, type Statement } from './embedded/engine/sql/statement.ts'
import { asObject, describeJson, parseJson, required } from './embedded/json-shape.ts'
import { readText } from './embedded/request-decoder.ts'
import { errorResponse, type ServiceRequest, type ServiceResponse, textResponse } from './exchange.ts'

/** Answers `POST /`, `/v1/execute` and `/v1/batch`. `forward` sends a pipeline to the database. */
export async function answerFirstVersion(
  request: ServiceRequest,
  forward: (pipeline: ServiceRequest) => Promise<ServiceResponse>,
): Promise<ServiceResponse> {
  const route = request.path === '/' ? new StatementsRoute() : new RequestRoute(request.path)
  // read when the right to ask has been checked
  const body = Readable.from(
    (async function* (): AsyncGenerator<Buffer> {
      yield Buffer.from(route.toPipeline(await readText(request.body)))
    })(),
  )
  try {
    const answer = await forward({ ...request, path: '/v2/pipeline', body })
    if (answer.status !== 200) return answer
    return route.toAnswer(typeof answer.body === 'string' ? answer.body : await readAll(answer.body))
  } catch (error) {
    if (error instanceof Refusal) return error.response
    throw error
  }
}

/** The request is answered without the database. */
class Refusal extends Error {
  readonly response: ServiceResponse

  constructor(response: ServiceResponse) {
    super('refused')
    this.response = response
  }
}

interface WireError {
  readonly message: string
  readonly code: string
}

/** `/v1/execute` and `/v1/batch`: one request of a pipeline, without the frame. */
class RequestRoute {
  readonly #type: 'execute' | 'batch'

  constructor(path: string) {
    this.#type = path === '/v1/execute' ? 'execute' : 'batch'
  }

  /** Nothing of the text is written anew: a number stays as it was written. */
  toPipeline(text: string): string {
    const body = asObject(parseJson(text), 'struct ReqBody')
    checkNoStoredTexts(required(body, this.#type === 'execute' ? 'stmt' : 'batch'))
    const request = text.trimEnd().slice(0, -1)
    return `{"requests":[${request},"type":"${this.#type}"},{"type":"close"}]}`
  }

  toAnswer(text: string): ServiceResponse {
    const begin = `{"type":"ok","response":{"type":"${this.#type}","result":`
    const end = '}},{"type":"ok","response":{"type":"close"}}]}'
    const at = text.indexOf(begin)
    // an error's message cannot have quotes like these: in JSON they are escaped
    if (at >= 0 && text.endsWith(end))
      return textResponse(200, 'application/json', `{"result":${text.slice(at + begin.length, -end.length)}}`)
    const { results } = JSON.parse(text) as { readonly results: readonly [{ readonly error: WireError }] }
    return textResponse(400, 'application/json', JSON.stringify(results[0].error))
  }
}

function checkNoStoredTexts(part: unknown): void {
  const { steps = [{ stmt: part }] } = (part ?? {}) as { readonly steps?: unknown }
  const isStored = (step: { readonly stmt?: { readonly sql_id?: unknown } } | null): boolean =>
    (step?.stmt?.sql_id ?? null) !== null
  if (Array.isArray(steps) && steps.some(isStored)) {
    const message = '`sql_id` is only supported in protocol version hrana2 and higher'
    throw new Refusal(textResponse(400, 'text/plain', message))
  }
}

/** A number of a body, as it was written. */
class NumberText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** `POST /`: statements that run one after the other up to the first that fails, without the wire's types. */
class StatementsRoute {
  #statements: readonly string[] = []
  /** Where there is nothing to run; -1 when everywhere there is something. */
  #emptyAt = -1

  toPipeline(text: string): string {
    const list = readStatements(text)
    this.#statements = list.map(({ sql }) => sql)
    const parsed = this.#statements.map((sql) => firstStatement(sql))
    checkTransactions(parsed)
    this.#emptyAt = parsed.indexOf(null)
    const steps = (this.#emptyAt < 0 ? list : list.slice(0, this.#emptyAt)).map(({ sql, values }, index) => {
      const condition = index === 0 ? '' : `,"condition":{"type":"ok","step":${index - 1}}`
      return `{"stmt":{"sql":${JSON.stringify(sql)}${values}}${condition}}`
    })
    return `{"requests":[{"type":"batch","batch":{"steps":[${steps.join()}]}},{"type":"close"}]}`
  }

  toAnswer(text: string): ServiceResponse {
    const { results } = JSON.parse(text) as { readonly results: readonly [BatchAnswer] }
    const [{ error, response }] = results
    if (response === undefined) return refusalOf(error as WireError)
    const { step_results: done, step_errors: failed } = response.result
    const isDone = done.every((result) => result !== null)
    const items = this.#statements.map((sql, index) => {
      if (index === this.#emptyAt && isDone) return '{"error":"not an error"}'
      const [result, problem] = [done[index], failed[index]]
      if (problem) return JSON.stringify({ error: logWords(problem, sql) })
      return result ? `{"results":${plainResult(result)}}` : 'null'
    })
    return textResponse(200, 'application/json', `[${items.join()}]`)
  }
}

interface BatchAnswer {
  readonly error?: WireError
  readonly response?: {
    readonly result: {
      readonly step_results: readonly (StepResult | null)[]
      readonly step_errors: readonly (WireError | null)[]
    }
  }
}

interface StepResult {
  readonly cols: readonly { readonly name: string }[]
  readonly rows: readonly (readonly WireValue[])[]
  readonly rows_read: number
  readonly rows_written: number
  readonly query_duration_ms: number
}

type WireValue =
  | { readonly type: 'null' }
  | { readonly type: 'integer' | 'text'; readonly value: string }
  | { readonly type: 'float'; readonly value: number | null }
  | { readonly type: 'blob'; readonly base64: string }

function plainResult(result: StepResult): string {
  const columns = JSON.stringify(result.cols.map(({ name }) => name))
  const rows = result.rows.map((row) => `[${row.map(plainValue).join()}]`).join()
  const { rows_read: read, rows_written: written, query_duration_ms: duration } = result
  return `{"columns":${columns},"rows":[${rows}],"rows_read":${read},"rows_written":${written},"query_duration_ms":${duration}}`
}

function plainValue(value: WireValue): string {
  switch (value.type) {
    case 'null':
      return 'null'
    case 'integer':
      return value.value
    case 'float':
      return value.value === null ? 'null' : floatText(value.value)
    case 'text':
      return JSON.stringify(value.value)
    case 'blob':
      return JSON.stringify({ base64: value.base64 })
    default:
      return value satisfies never
  }
}

/** What is answered in place of results when nothing could run, or the answer is too large. */
function refusalOf(error: WireError): ServiceResponse {
  if (error.code === 'SQL_MANY_STATEMENTS') {
    const text =
      'found more than one command in a single statement string. It is allowed to issue only one command per string.'
    return errorResponse(400, `Failed to parse query: \`${text}\``)
  }
  if (error.code === 'RESPONSE_TOO_LARGE') {
    const text =
      'query response exceeds the maximum size of 10.0 MB. Try reducing the number of queried rows.'
    return errorResponse(500, text)
  }
  return errorResponse(
    500,
    `Internal Error: \`${error.message.replace('SQL string could not be parsed: ', '')}\``,
  )
}

/** A transaction has to end in the request in which it begins. */
function checkTransactions(statements: readonly (Statement | null)[]): void {
  let isOpen = false
  for (const statement of statements) {
    const verb = statement?.verb
    if (verb === 'RELEASE')
      throw queryError('savepoints are not supported in HTTP API, use hrana protocol instead')
    if (verb === 'BEGIN') isOpen = true
    if (verb === 'COMMIT' || verb === 'END' || verb === 'ROLLBACK') isOpen = false
  }
  if (isOpen) throw queryError('interactive transaction not allowed in HTTP queries')
}

function queryError(text: string): Refusal {
  return new Refusal(errorResponse(400, `Query error: \`${text}\``))
}

interface GivenStatement {
  readonly sql: string
  /** Members of the wire's statement, each with a comma before it. */
  readonly values: string
}

function readStatements(text: string): readonly GivenStatement[] {
  const body = parseNumbersAsText(text)
  if (!isRecord(body)) throw unprocessable(`invalid type: ${nameOf(body)}, expected struct HttpQuery`)
  const { statements } = body
  if (statements === undefined) throw unprocessable('missing field `statements`')
  if (!Array.isArray(statements))
    throw unprocessable(`statements: invalid type: ${nameOf(statements)}, expected a sequence`)
  return statements.map((statement: unknown, index) => {
    const at = `statements[${index}]`
    if (typeof statement === 'string') return { sql: statement, values: '' }
    if (!isRecord(statement))
      throw unprocessable(`${at}: invalid type: ${nameOf(statement)}, expected a string or an object`)
    const { q, params, ...others } = statement
    const [other] = Object.keys(others)
    if (other !== undefined)
      throw unprocessable(`${at}: unknown field \`${other}\`, expected \`q\` or \`params\``)
    if (q === undefined) throw unprocessable(`${at}: missing field \`q\``)
    if (typeof q !== 'string') throw unprocessable(`${at}.q: invalid type: ${nameOf(q)}, expected a string`)
    return { sql: q, values: params === undefined ? '' : readParams(params, `${at}.params`) }
  })
}

function readParams(params: unknown, at: string): string {
  if (Array.isArray(params))
    return `,"args":[${params.map((value, index) => wireValue(value, `${at}[${index}]`)).join()}]`
  if (!isRecord(params))
    throw unprocessable(`${at}: invalid type: ${nameOf(params)}, expected an array or a map of parameters`)
  const named = Object.entries(params).map(
    ([name, value]) => `{"name":${JSON.stringify(name)},"value":${wireValue(value, `${at}.${name}`)}}`,
  )
  return `,"named_args":[${named.join()}]`
}

function wireValue(value: unknown, at: string): string {
  if (value === null) return '{"type":"null"}'
  if (typeof value === 'boolean') return `{"type":"integer","value":"${Number(value)}"}`
  if (typeof value === 'string') return JSON.stringify({ type: 'text', value })
  if (value instanceof NumberText) return wireNumber(value.text)
  if (!isRecord(value))
    throw unprocessable(`${at}: invalid type: ${nameOf(value)}, expected a valid SQLite value`)
  const { base64 } = value
  if (base64 === undefined) throw unprocessable(`${at}: missing field \`blob\``)
  if (typeof base64 !== 'string')
    throw unprocessable(`${at}: invalid type: ${nameOf(base64)}, expected a borrowed string`)
  return JSON.stringify({ type: 'blob', base64 })
}

function wireNumber(text: string): string {
  const isInteger = /^-?\d+$/.test(text)
  // up to 64 bits without a sign there; beyond it is a float
  if (isInteger && BigInt(text) >= -(2n ** 63n) && BigInt(text) < 2n ** 64n)
    return `{"type":"integer","value":"${BigInt.asIntN(64, BigInt(text))}"}`
  return `{"type":"float","value":${text}}`
}

/** 1.0 is not 1 here: numbers keep their text. */
function parseNumbersAsText(text: string): unknown {
  try {
    return JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) =>
      typeof value === 'number' ? new NumberText(context?.source ?? String(value)) : value,
    )
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Refusal(
      textResponse(400, 'text/plain; charset=utf-8', `Failed to parse the request body as JSON: ${reason}`),
    )
  }
}

function unprocessable(detail: string): Refusal {
  const text = `Failed to deserialize the JSON body into the target type: ${detail}`
  return new Refusal(textResponse(422, 'text/plain; charset=utf-8', text))
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof NumberText)
  )
}

/** How the service names a value of the wrong type. */
function nameOf(value: unknown): string {
  return value instanceof NumberText ? `integer \`${value.text}\`` : describeJson(value)
}
