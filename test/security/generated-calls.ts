import { ALLOWED_FUNCTIONS, ALLOWED_TABLE_FUNCTIONS } from '@batonsql/server-common/sql'
import { pick } from '../support/random.ts'
import { words } from '../support/words.ts'

/** Tables for the functions that need them, with shapes, texts and vectors. */
export const CALL_SCHEMA: readonly string[] = [
  'create virtual table f3 using fts3(x)',
  'create virtual table f4 using fts4(x)',
  'create virtual table f5 using fts5(x)',
  'create virtual table r using rtree(id, x0, x1)',
  'create virtual table g using geopoly(a)',
  'create table vec(id integer primary key, e F32_BLOB(3))',
  'create index vec_e on vec(libsql_vector_idx(e))',
  "insert into f3 values ('one two'), ('three')",
  "insert into f4 values ('one two'), (cast(x'f0' as text))",
  "insert into f5 values ('one two'), (cast(x'e282' as text))",
  'insert into r values (1, 0, 1), (2, -1e30, 1e30)',
  "insert into g(_shape) values ('[[0,0],[1,0],[0,1],[0,0]]')",
  "insert into vec values (1, vector('[1,2,3]')), (2, vector('[3,2,1]'))",
]

/** The additional functions of the embedded engine. */
const EMBEDDED_FUNCTIONS = ['regexp', 'regexpi', 'vector8', 'vector16', 'vectorb16', 'vector1bit']
const FUNCTIONS = [...ALLOWED_FUNCTIONS, ...EMBEDDED_FUNCTIONS].filter((name) => /^\w+$/.test(name))
const TABLE_FUNCTIONS = [...ALLOWED_TABLE_FUNCTIONS].filter((name) => !/^(?:dbstat|sqlite_stmt)$/.test(name))

const NUMBERS: readonly string[] = [
  ...words(`
    null 0 1 -1 2 3 4 7 16 64 100 255 256 65535 65536 156250 2147483647 2147483648 -2147483648
    2863311531 4294967295 4294967296 9223372036854775807
  `),
  '(-9223372036854775807 - 1)',
  ...words('1e308 -1e308 9e999 -9e999 1e-320 0.5'),
]

const TEXTS: readonly string[] = [
  "''",
  "'a'",
  "'abc'",
  "'%'",
  "'one'",
  "'\u{1f600}é€'",
  "'a' || char(0) || 'b'",
  'char(1114111, 55296, 0)',

  "cast(x'f0' as text)",
  "cast(x'e282' as text)",
  "cast(x'61c3' as text)",
  "cast(x'8080808080' as text)",
  "cast(x'fffefdfc' as text)",
  'cast(zeroblob(300) as text)',
  "cast(x'f09f98' as text) || 'x'",
  "replace(hex(zeroblob(50000)), '00', '(')",
  "replace(hex(zeroblob(20000)), '00', '[')",
  "replace(hex(zeroblob(10000)), '00', '{\"a\":')",
  "replace(hex(zeroblob(30000)), '00', '1,') || '1'",
  "'[' || replace(hex(zeroblob(70000)), '00', '1,') || '1]'",
  "replace(hex(zeroblob(20000)), '00', '%a')",

  `'{"a":[1,{"b":"\\u0000\\ud800"}],"c":1e999}'`,
  ...words(`
    '[1,[2,[3]],"x",null]' '{"a":1' '[[[[[' '$' '$.a[#-1]' '$[99999999999999]' '$."a".b[0]' '$.a[#'
    '$..' '%99999999d' '%.*c' '%*.*f' '%!.2147483647g' '%q%Q%w%n' '%,d%+.400f' '%-*s|%z'
  `),
  "'2024-01-31 23:59:60.9999'",
  "'now'",
  "'-4713-11-24'",
  "'+999999999999 days'",
  "'weekday 99'",
  "'subsec'",

  "'%Y%j%f%J%s%G%V%U'",
  "'+0001-13-45 99:99'",
  ...words(`
    '12:00+99:99' 'unixepoch' 'auto' 'localtime' '[1,2,3]' '[1e400,-1e-400,NaN]' '[]' '[1,2,'
    'float32' 'metric=cosine' '[[0,0],[1,0],[0,1],[0,0]]' '[[0,0],[1e40,0],[0,-1e40],[0,0]]'
    '[[0,0],[1,0]]' '(a|b)*c{2,3}[^x-z]' 'a{4294967296}' '((a{1000}){1000}){1000}' '[a-'
  `),
  "'\\'",
  "'\\x4'",
  ...words(`'^$' '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}' 'a0eebc99' 'pcnx' 'pcxalsyb' 'vec_e' 'main' 'r'`),
]

const BLOBS: readonly string[] = [
  ...words(`
    x'' x'00' zeroblob(10) zeroblob(100000) zeroblob(5000000) randomblob(37) randomblob(4096)
    vector32('[1,2,3]') vector64('[1,2,3]') vector8('[1,2,3,4,5]') vector1bit('[1,-1,1]')
    vector16('[1,2,3]') vectorb16('[1,2]') jsonb('{"a":[1,{"b":"c"}]}') jsonb('[1,2.5,"x",null]')
    geopoly_blob('[[0,0],[1,0],[0,1],[0,0]]')
  `),
  '(select data from r_node)',
  '(select _shape from g)',
]

/** Table-valued functions, with their hidden columns: conditions on these are also arguments. */
const HIDDEN_COLUMNS: Readonly<Record<string, readonly string[]>> = {
  json_each: ['json', 'root'],
  json_tree: ['json', 'root'],
  fts3tokenize: ['input'],
  dbstat: ['schema', 'aggregate'],
  vector_top_k: ['idx', 'vector', 'k'],
}

/** A statement, and the values bound to its parameters. */
export interface GeneratedCall {
  readonly sql: string
  readonly args: readonly (null | bigint | number | string | Uint8Array)[]
}

const PARAMETER_BLOBS = ['', '00', '000004', 'eb00000000', 'fffefdfc01', '0000803f0000004000004040'].map(
  (hex) => Buffer.from(hex, 'hex'),
)
const PARAMETERS: readonly GeneratedCall['args'][number][] = [
  null,
  0n,
  1n,
  -1n,
  2n,
  100n,
  65_536n,
  268_435_456n,
  2n ** 31n,
  2n ** 32n,
  -(2n ** 63n),
  2n ** 63n - 1n,
  0,
  0.5,
  1,
  1e308,
  -1e308,
  1e-320,
  '',
  ...words('0 a vec_e main [1,2,3] [1, {"a":[1]} $ $.a[#-1] %.*c now'),
  'a\u0000b',
  new Uint8Array(5_000),
  ...PARAMETER_BLOBS,
]

/** Generates a statement with bound parameters instead of arguments, or instead of the values compared with hidden columns. */
export function generateBoundCall(random: () => number): GeneratedCall {
  const args = Array.from({ length: Math.floor(random() * 5) }, () => pick(random, PARAMETERS))
  const list = args.map(() => '?').join(', ')
  const kind = random()
  if (kind < 0.6) return { sql: `select ${pick(random, FUNCTIONS)}(${list})`, args }
  if (kind < 0.75) return { sql: `select * from ${pick(random, TABLE_FUNCTIONS)}(${list}) limit 50`, args }
  if (kind < 0.9) {
    const sql = `select * from vector_top_k('vec_e', '[1,2,3]', ${pick(random, ['?', '? + 0', '(select ?)', 'max(?, 0)'])})`
    return { sql, args: [pick(random, PARAMETERS)] }
  }
  const table = pick(random, Object.keys(HIDDEN_COLUMNS))
  const columns = HIDDEN_COLUMNS[table] ?? []
  const condition = columns
    .map((name) => `q.${name} ${pick(random, ['=', 'is', 'in', '<'])} (?)`)
    .join(' and ')
  return {
    sql: `select 1 from ${table} q where ${condition} limit 50`,
    args: columns.map(() => pick(random, PARAMETERS)),
  }
}

/** Generates a statement that calls an allowed function with unexpected arguments. */
export function generateCall(random: () => number): string {
  const list = (min: number, max: number): string =>
    Array.from({ length: min + Math.floor(random() * (max - min + 1)) }, () => value(random, 2)).join(', ')
  const kind = random()
  if (kind < 0.03) return `select * from vector_top_k('vec_e', '[1,2,3]', ${value(random, 1)})`
  if (kind < 0.1) return `select * from ${pick(random, TABLE_FUNCTIONS)}(${list(0, 3)}) limit 100`
  if (kind < 0.2) {
    const table = pick(random, ['f3', 'f4', 'f5'])
    const call = pick(random, ['snippet', 'offsets', 'matchinfo', 'highlight', 'bm25'])
    const match = pick(random, ["'one'", "'one OR three'", '\'"one two"\'', "'o*'", value(random, 1)])
    return `select ${call}(${[table, list(0, 5)].filter(Boolean).join(', ')}) from ${table} where ${table} match ${match}`
  }
  if (kind < 0.25) return `select ${call(random, 1)} from g, vec, r`
  const rows = Array.from({ length: 4 }, () => `(${value(random, 1)})`).join(', ')
  const name = pick(random, FUNCTIONS)
  const overClause =
    random() < 0.3
      ? ` over (order by column1 rows between ${pick(random, ['1', '0'])} preceding and 1 following)`
      : ''
  const args = [pick(random, ['column1', '', value(random, 1)]), list(0, 2)].filter(Boolean).join(', ')
  if (kind < 0.4) return `select ${name}(${args})${overClause} from (values ${rows})`
  return `select ${call(random, 2)}`
}

function call(random: () => number, depth: number): string {
  const count = Math.floor(random() * 5)
  const args = Array.from({ length: count }, () => value(random, depth))
  return `${pick(random, FUNCTIONS)}(${args.join(', ')})`
}

function value(random: () => number, depth: number): string {
  const kind = random()
  if (kind < 0.3) return pick(random, NUMBERS)
  if (kind < 0.6) return pick(random, TEXTS)
  if (kind < 0.75) return pick(random, BLOBS)
  if (kind < 0.85) return damagedBlob(random)
  if (kind < 0.9) return `x'${bytes(random, Math.floor(random() * 24))}'`
  return depth > 0 ? call(random, depth - 1) : pick(random, NUMBERS)
}

/** Generates a truncated part of a special value, with bytes appended. */
function damagedBlob(random: () => number): string {
  const blob = pick(random, BLOBS)
  const offset = Math.floor(random() * 20)
  const part = random() < 0.5 ? `substr(${blob}, 1, ${offset})` : `substr(${blob}, ${offset})`
  return `cast(${part} || x'${bytes(random, 1 + Math.floor(random() * 3))}' as blob)`
}

function bytes(random: () => number, count: number): string {
  const byte = (): number => Math.floor(random() * (random() < 0.5 ? 16 : 256))
  return Array.from({ length: count }, () => byte().toString(16).padStart(2, '0')).join('')
}
