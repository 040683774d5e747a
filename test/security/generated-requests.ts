import { pick } from '../support/random.ts'
import { phrases, words } from '../support/words.ts'
import { generateChange } from './generated-statements.ts'

/** A request as it is sent over the wire. */
export interface GeneratedRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

const DATABASES = ['app', 'app', 'app', 'other', 'parent', 'kid', 'nobody']
const ROUTES = words(`
  v2/pipeline v3/pipeline v3/pipeline v3/cursor dump dump?preserve_row_ids=true
  dump?preserve_row_ids=maybe&x=%zz beta/listen?table=t
  beta/listen?table=t&action=insert&action=delete beta/listen?action=nothing v1/jobs v1/jobs/1
  v1/jobs/99999999999999999999 v1/jobs/-1 v1/jobs/%2e%2e version health v3 dev/app/v2/pipeline
  v3-protobuf/pipeline ..%2f..%2fv2/pipeline %00
`)
const QUERIES = [
  ...phrases(`
    select * from t | select 1; select 2 | select ?, ?2, :a, @b, $c
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) select i, hex(randomblob(8)) from n
    select cast(x'ff' as text) | select zeroblob(100000) | select 9e999, -9e999, 0.1, -0.0
    select * from pragma_table_info('t') | explain select * from t | attach other as o | select * from o.t
    detach o | begin | commit | rollback | savepoint s | release s | create table again(a)
  `),
  '',
  '--',
  '/*',
  "'",
]
const VALUES: readonly Json[] = [
  { type: 'null' },
  { type: 'integer', value: '9223372036854775807' },
  { type: 'integer', value: '9223372036854775808' },
  { type: 'integer', value: 1 },
  { type: 'float', value: 1.5 },
  { type: 'float', value: 'x' },
  { type: 'text', value: 'a\u0000b🙂\ud800' },
  { type: 'blob', base64: 'AQI=' },
  { type: 'blob', base64: '*' },
  { type: 'nothing' },
  null,
]
/** Replacements for a part of a request. */
const MALFORMED_VALUES: readonly Json[] = [
  null,
  true,
  0,
  -1,
  2 ** 53,
  1e300,
  '',
  '__proto__',
  'constructor',
  'x'.repeat(5_000),
  [],
  {},
  [[[[[[[[[[]]]]]]]]]],
  { type: 'close' },
  { __proto__: null, toString: 1 },
]

/** Generates a valid, invalid or malicious request. @param batons batons that the server issued */
export function generateRequest(random: () => number, batons: readonly string[]): GeneratedRequest {
  const path = `/${pick(random, DATABASES)}/${pick(random, ROUTES)}`
  const isPost = /pipeline|cursor/.test(path)
  const method =
    random() < 0.9 ? (isPost ? 'POST' : 'GET') : pick(random, ['PUT', 'DELETE', 'OPTIONS', 'HEAD', 'PATCH'])
  const headers: Record<string, string> = {}
  if (random() < 0.1)
    headers['content-type'] = pick(random, ['text/plain', 'application/json; charset=utf-16', 'x'])
  if (random() < 0.05)
    headers['x-namespace'] = pick(random, ['app', '../app', 'ä'.normalize('NFD').replace(/[^a]/g, '')])
  if (random() < 0.05)
    headers['authorization'] = pick(random, [
      'Bearer x',
      'Basic eDp5',
      'Bearer',
      `Bearer ${'a.'.repeat(3_000)}`,
    ])
  const canHaveBody = method !== 'GET' && method !== 'HEAD'
  return { method, path, headers, body: canHaveBody ? createBody(random, path, batons) : undefined }
}

function createBody(random: () => number, path: string, batons: readonly string[]): string {
  const baton: Json =
    random() < 0.5 || batons.length === 0 ? null : maybeCorruptBaton(random, pick(random, batons))
  const requests = Array.from({ length: 1 + Math.floor(random() * 4) }, () => operation(random))
  if (random() < 0.5) requests.push({ type: 'close' })
  const body: Json = path.endsWith('cursor') ? { baton, batch: batch(random) } : { baton, requests }
  const isMutated = random() < 0.4
  const text = JSON.stringify(isMutated ? mutate(random, body) : body)
  return random() < 0.1 ? corrupt(random, text) : text
}

function maybeCorruptBaton(random: () => number, baton: string): string {
  return random() < 0.7 ? baton : corrupt(random, baton)
}

function operation(random: () => number): Json {
  const kind = pick(random, words('execute execute execute batch sequence describe store get_autocommit'))
  if (kind === 'execute') return { type: 'execute', stmt: statement(random) }
  if (kind === 'batch') return { type: 'batch', batch: batch(random) }
  if (kind === 'store')
    return {
      type: pick(random, ['store_sql', 'close_sql']),
      sql_id: Math.floor(random() * 3),
      sql: sql(random),
    }
  return kind === 'get_autocommit' ? { type: kind } : { type: kind, sql: sql(random) }
}

function batch(random: () => number): Json {
  const steps = Array.from({ length: Math.floor(random() * 5) }, (_, index) => ({
    stmt: statement(random),
    ...(random() < 0.5 && { condition: condition(random, index) }),
  }))
  return { steps }
}

function condition(random: () => number, stepIndex: number): Json {
  const step = Math.floor(random() * (stepIndex + 1))
  const simple: Json =
    random() < 0.8 ? { type: pick(random, ['ok', 'error']), step } : { type: 'is_autocommit' }
  if (random() < 0.3) return { type: 'not', cond: simple }
  return random() < 0.2 ? { type: pick(random, ['and', 'or']), conds: [simple, simple] } : simple
}

function statement(random: () => number): Json {
  const text = random() < 0.9 ? { sql: sql(random) } : { sql_id: Math.floor(random() * 3) }
  const args = Array.from({ length: Math.floor(random() * 4) }, () => pick(random, VALUES))
  const namedArgs = random() < 0.2 && {
    named_args: [{ name: pick(random, ['a', ':a', '', '__proto__']), value: pick(random, VALUES) }],
  }
  return {
    ...text,
    ...(random() < 0.4 && { args }),
    ...namedArgs,
    ...(random() < 0.1 && { want_rows: false }),
  }
}

const sql = (random: () => number): string =>
  random() < 0.5 ? pick(random, QUERIES) : generateChange(random)

/** Returns a value with one part replaced, removed or duplicated. */
function mutate(random: () => number, value: Json): Json {
  if (random() < 0.15 || typeof value !== 'object' || value === null) return pick(random, MALFORMED_VALUES)
  if (Array.isArray(value)) {
    const items = value as readonly Json[]
    if (items.length === 0) return pick(random, MALFORMED_VALUES)
    const mutatedIndex = Math.floor(random() * items.length)
    if (random() < 0.2) return [...items, ...items]
    return items.map((item, index) => (index === mutatedIndex ? mutate(random, item) : item))
  }
  const entries = Object.entries(value as Readonly<Record<string, Json>>)
  if (entries.length === 0) return pick(random, MALFORMED_VALUES)
  const mutatedIndex = Math.floor(random() * entries.length)
  if (random() < 0.2) return Object.fromEntries(entries.filter((_, index) => index !== mutatedIndex))
  return Object.fromEntries(
    entries.map(([name, item], index) => [name, index === mutatedIndex ? mutate(random, item) : item]),
  )
}

/** Returns the text with some characters removed or replaced. */
function corrupt(random: () => number, text: string): string {
  const offset = Math.floor(random() * text.length)
  const length = 1 + Math.floor(random() * 3)
  return (
    text.slice(0, offset) +
    pick(random, ['', '\u0000', '{', '"', '\\', 'é', ',,']) +
    text.slice(offset + length)
  )
}
