import { expect, test } from 'vitest'
import { isReadingStatement } from '../../../internal/inspector/src/reading-statement.ts'
import { decodePipelineBody } from '../../../internal/server-common/src/hrana/request-decoder.ts'
import { deferTransactions } from '../../../internal/server-common/src/sql/defer-transactions.ts'
import { parseStatements } from '../../../internal/server-common/src/sql/statement.ts'
import { limitVectorSearches } from '../../../internal/server-common/src/sql/vector-search.ts'
import { replaceAttachNames } from '../../../internal/sqld-gateway/src/request/attach-names.ts'
import { findRejection } from '../../../internal/sqld-gateway/src/request/sql-guard.ts'
import { getRequestsEffect } from '../../../internal/sqld-gateway/src/request/write-effect.ts'
import { findLastWord } from '../../../packages/cli/src/prompt-completer.ts'
import { splitComplete, splitScript } from '../../../packages/cli/src/split-script.ts'
import { tableOf, withExactLiterals } from '../../../packages/core/src/backup/exact-literals.ts'
import { readVirtualTable } from '../../../packages/core/src/backup/virtual-table.ts'
import { SqlError } from '../../../packages/core/src/base/errors.ts'
import { InsertedRowids } from '../../../packages/core/src/codec/inserted-rowids.ts'
import { parseResponse } from '../../../packages/core/src/codec/row-text.ts'
import { encodeStatement } from '../../../packages/core/src/codec/statement.ts'
import { resolveConfig } from '../../../packages/core/src/config.ts'
import { EventParser } from '../../../packages/core/src/endpoints/event-parser.ts'
import { UNUSUAL_ERROR } from '../../../packages/core/src/http/http.ts'
import { translateErrors } from '../../../packages/core/src/http/translate-errors.ts'
import { summarize } from '../../../packages/core/src/observe/opentelemetry/query-summary.ts'
import { splitStatements } from '../../../packages/core/src/sql/script.ts'
import { splitIntoParts } from '../../../packages/core/src/sql/split-into-parts.ts'
import {
  checkControl,
  setsForeignKeys,
  statementKind,
} from '../../../packages/core/src/sql/statement-kind.ts'
import { rejectionError } from '../../../packages/core/src/stream/cursor-exchange.ts'
import { findDroppedTable } from '../../../packages/kysely-dialect/src/cascading-drop.ts'
import { parseUrl } from '../../../packages/platform/src/path.ts'
import { redact } from '../../../packages/platform/src/token.ts'
import { countSteps } from '../../support/count-steps.ts'
import { words } from '../../support/words.ts'

const TOKENS = [
  ...Array.from(`'"\`[](){};:.,=-_/*\\ $?@x0e~`),
  "''",
  '""',
  '``',
  '[]',
  '/*',
  '/**/',
  '--\n',
  '\\"',
  ...words(`'a "a" x' 0. .1 e1 -1 a a, ::`),
  'or ',
  'or fail',
  'do update',
  'insert',
  'insert or ',
  'into',
  'with ',
  'pragma',
  'foreign_keys',
  'rollback ',
  ...words(`to unistr( unistr(' inf x'00' (" "a"" ', ',''`),
  ': .(',
  '.(',
  't.',
  'create ',
  'trigger',
  'explain ',
  'transaction ',
  'begin',
  '; end',
  ...words('end eyJ eyJ- eyJa. -eyJ .eyJ'),
  'UNIQUE : ',
  ' constraint failed: ',
  'Error: ',
  'Runtime error: ',
  'step failed: ',
  '"message":"',
  '{"message":"SQL',
  '{"message":"',
  '"a":null,',
  ',"a":"b"',
  'SQL string ',
  '`conc',
  '"rows":[[',
  '"cols":',
  ']],"affected_row_count":',
  'event:',
  'data:',
  'data: a\n',
  '\r',
  '\n',
  '\r\n',
  'SQLITE_',
  '=(',
  "('table',",
]
const ignoringErrors = (run: () => unknown) => () => {
  try {
    run()
  } catch (error) {
    // rejected text was scanned too
    if (!(error instanceof Error) || /counted|too many steps|not understood/.test(error.message)) throw error
  }
}

/** Text before the repeated token, which leads to the scan in question. */
const SQL_STARTS = [
  '',
  'select ',
  'insert into t ',
  'insert into "t" (',
  'insert into "t" (0.1',
  "insert into t values ('a', ",
  'with a as (',
  'pragma ',
  'rollback ',
  'commit ',
  'create trigger a ',
  'or',
  "insert into sqlite_schema(type,name,tbl_name,rootpage,sql) values('table',",
]
const ERROR_STARTS = [
  '',
  'SQLite error: ',
  'SQL',
  'UNIQUE ',
  'UNIQUE constraint failed: ',
  'Runtime error: UNIQUE a: ',
  'near "',
]
const toResponse = (message: string): string =>
  JSON.stringify({ results: [{ type: 'error', error: { message, code: 'A' } }] })
const insert = { last_insert_rowid: '1', affected_row_count: 1 }

let checkedCount = 0

function checkInGateway(text: string): void {
  // the gateway remembers the effects of a text
  const sql = `${text} ${++checkedCount}`
  for (const mayWrite of [true, false]) findRejection(sql, { kind: 'run', mayWrite })
  getRequestsEffect([{ type: 'sequence', sql, sqlId: null }])
}

function decodeArgument(value: object): void {
  const requests = [{ type: 'execute', stmt: { sql: '', args: [value] } }]
  decodePipelineBody(JSON.stringify({ requests }))
}

const SCANS: readonly [name: string, starts: readonly string[], scan: (text: string) => unknown][] = [
  ['the kind of statements', SQL_STARTS, (sql) => setsForeignKeys(sql, statementKind(sql))],
  ['control statements', SQL_STARTS, (sql) => checkControl(sql)],
  ['statements', SQL_STARTS, (sql) => encodeStatement(sql)],
  ['scripts', SQL_STARTS, (sql) => splitIntoParts(splitStatements(sql))],
  [
    'inserts',
    SQL_STARTS,
    (sql) => new InsertedRowids().read(insert, { ...encodeStatement(sql), kind: 'insert' }),
  ],
  ['summaries', SQL_STARTS, summarize],
  ['statements of a dump', SQL_STARTS, withExactLiterals],
  ['virtual tables of a dump', SQL_STARTS, readVirtualTable],
  ['tables of a dump', SQL_STARTS, tableOf],
  ['errors', ERROR_STARTS, (message) => new SqlError({ message, code: 'SQLITE_CONSTRAINT' }, message)],
  ['responses with an error', ERROR_STARTS, (message) => UNUSUAL_ERROR.test(toResponse(message))],
  ['responses that are not JSON', ['', '{"message":"'], (text) => UNUSUAL_ERROR.test(text)],
  ['translated errors', ERROR_STARTS, (message) => translateErrors(toResponse(message))],
  ['translated text that is not JSON', ['', '{"message":"'], (text) => translateErrors(text)],
  ['rows', ['', '{"results":['], parseResponse],
  ['rejected cursors', [''], (text) => rejectionError(500, 'http://a', text, null, 'select 1')],
  ['events', ['', 'data:'], (text) => new EventParser().push(new TextEncoder().encode(text))],
  [
    'events in small parts',
    ['', 'data:'],
    (text) => {
      const parser = new EventParser()
      for (const byte of new TextEncoder().encode(text)) parser.push(Uint8Array.of(byte))
    },
  ],
  ['URLs', ['http://a', 'http://a/'], (url) => resolveConfig({ url })],
  ['URLs of the platform', ['http://a', 'http://a/'], parseUrl],
  ['texts with tokens', ['', 'eyJa.b'], (text) => redact(text, 'secret')],
  [
    'dropped tables',
    ['', 'drop', 'drop table ', 'drop table a', 'drop table if exists main'],
    findDroppedTable,
  ],
  ['statements on the server', SQL_STARTS, parseStatements],
  ['statements of the inspector', SQL_STARTS, isReadingStatement],
  ['statements of a schema', SQL_STARTS, deferTransactions],
  ['vector searches', ["select * from vector_top_k('a', "], limitVectorSearches],
  ['ATTACH', ['attach '], (sql) => replaceAttachNames(sql, () => undefined)],
  ['statements in the gateway', SQL_STARTS, checkInGateway],
  ['lines of the command', SQL_STARTS, (sql) => [splitScript(sql), splitComplete(sql)]],
  ['lines to complete', ['', '.', 'select '], findLastWord],
  ['blobs', ['', 'aa=='], (base64) => decodeArgument({ type: 'blob', base64 })],
  ['integers', ['', '1', '-'], (value) => decodeArgument({ type: 'integer', value })],
  ['REALs as text', ['', '1.'], (value) => decodeArgument({ type: 'float', value })],
]

/** Text after the repeated token, with which the scan fails late. */
const ENDS = ['', ' ~', ')', '"cols":]],"affected_row_count":']

/** For each text, scanning twice its length takes at most about twice the steps. */
test.each(SCANS)('%s are scanned in linear time', (_, starts, scan) => {
  const count = (text: string): number => countSteps(ignoringErrors(() => scan(text)))
  for (const start of starts)
    for (const token of TOKENS)
      for (const end of ENDS) {
        const [steps, twice] = [40, 80].map((n) => count(start + token.repeat(n) + end)) as [number, number]
        const isLinear = twice <= steps * 2.2 + 200
        expect(isLinear, `${JSON.stringify([start, token, end])}: ${steps}, ${twice} steps`).toBe(true)
      }
})

test('many errors in one response are scanned in linear time', () => {
  const count = (n: number, message: string): number =>
    countSteps(() => UNUSUAL_ERROR.test(`[${`{"message":${JSON.stringify(message)}},`.repeat(n)}]`))
  for (const message of [
    'SQLite error: UNIQUE constraint failed: t.a',
    'SQL string could not be parsed: near "a"',
  ])
    expect(count(200, message)).toBeLessThan(count(100, message) * 2.1)
})

test('the message of an error may have the length of a response', () => {
  for (const part of ['a', '"', '\\', '\n']) {
    const text = toResponse(`SQL ${part.repeat(1_000_000)}`)
    expect(UNUSUAL_ERROR.test(text)).toBe(false)
    expect(translateErrors(text)).toBe(text)
  }
})
