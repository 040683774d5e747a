import { ProtocolError } from '../base/errors.ts'
import { isControl, statementKind } from '../sql/statement-kind.ts'
import { readStatements, type ScriptSource } from './statement-reader.ts'

/** What goes into one request, at most: characters, and statements, whose results have to fit into one answer of 10 MB. */
const BATCH_LENGTH = 1_000_000
const BATCH_STATEMENTS = 20_000

/** Statements that are applied together. */
export interface RestoreBatch {
  /** Each with the number, from 0, of the statement of the source that it stands for. */
  readonly statements: readonly { readonly sql: string; readonly at: number }[]
  /** Number of the first statement of the source that is not in it or before it. */
  readonly end: number
  /** Length of their text, in characters. */
  readonly length: number
  readonly isLast: boolean
}

/**
 * Cuts a dump into batches that are transactions of their own, of statements that a server accepts from a client.
 * @throws ProtocolError for a source that is cut off, or rolls back
 */
export async function* batchesOf(source: ScriptSource): AsyncGenerator<RestoreBatch, void, undefined> {
  const translator = new DumpTranslator()
  /** The last full one, until it is known whether there is another. */
  let held: RestoreBatch | null = null
  let statements: RestoreBatch['statements'][number][] = []
  let length = 0
  let end = 0
  for await (const { sql } of readStatements(source)) {
    const isFull = length + sql.length > BATCH_LENGTH || statements.length >= BATCH_STATEMENTS
    if (isFull && statements.length > 0) {
      if (held) yield held
      held = { statements, end, length, isLast: false }
      statements = []
      length = 0
    }
    for (const own of translator.translate(sql)) {
      statements.push({ sql: own, at: end })
      length += own.length
    }
    end += 1
  }
  if (translator.isOpen) throw new ProtocolError('the script ends before its COMMIT')
  if (held) yield held
  yield { statements, end, length, isLast: true }
}

/** Makes of the statements of a dump those that do the same in a batch. */
class DumpTranslator {
  /** Whether a transaction of the dump was begun and not committed. */
  isOpen = false
  readonly #virtualTables: string[] = []

  /** @returns none for what the batch does itself @throws ProtocolError for what no dump that went well has */
  translate(sql: string): string[] {
    const kind = statementKind(sql)
    if (kind === 'rollback') throw new ProtocolError('the script rolls back: it is a dump that failed')
    if (isControl(kind)) {
      this.isOpen = kind === 'begin'
      return []
    }
    if (kind === 'savepoint' || kind === 'release') throw new ProtocolError('a dump has no savepoints')
    // statistics are not restored: servers take no ANALYZE
    if (PRAGMA.test(sql) || STATISTICS.test(sql)) return []
    // there when any table of the source ever counted, and also when that one is gone
    if (CLEAR_SEQUENCE.test(sql)) return [...MAKE_SEQUENCE, sql]
    // a dump writes a virtual table into the schema, which no client may, and then the tables that it keeps its data in
    const [, name, virtual] = VIRTUAL_TABLE.exec(sql) ?? []
    if (name !== undefined && virtual !== undefined) {
      this.#virtualTables.push(unquoted(name))
      return [unquoted(virtual)]
    }
    const [, table = ''] = CREATE_TABLE.exec(sql) ?? []
    const isShadow = this.#virtualTables.some((each) => unquoted(table).startsWith(`${each}_`))
    // made with the virtual table, whose first rows the dump has, too
    return isShadow ? [sql, `delete from ${table}`] : [withReadableValues(sql)]
  }
}

const STATISTICS = /^(?:analyze\b|(?:insert into|delete from) ["']?sqlite_stat\d)/i
const CLEAR_SEQUENCE = /^delete from ["']?sqlite_sequence["']?$/i
/** SQLite makes its table of counts with the first table that counts. */
const MAKE_SEQUENCE = [
  'create table baton_restore_sequence (n integer primary key autoincrement)',
  'drop table baton_restore_sequence',
]
const PRAGMA = /^pragma\s+(?:foreign_keys|writable_schema)\s*=/i
const TEXT = `'[^']*(?:''[^']*)*'`
const VIRTUAL_TABLE = new RegExp(
  `^insert into sqlite_(?:schema|master)\\s*\\(type,\\s*name,\\s*tbl_name,\\s*rootpage,\\s*sql\\)\\s*values\\s*\\('table',\\s*(${TEXT}),\\s*${TEXT},\\s*0,\\s*(${TEXT})\\)$`,
  'i',
)
const NAME = `"[^"]*(?:""[^"]*)*"`
const CREATE_TABLE = new RegExp(`^create table if not exists (${TEXT}|${NAME}|\\w+)`, 'i')
const INSERT = new RegExp(
  `^insert into (?:${TEXT}|${NAME}|\\[[^\\]]*\\]|[^\\s"'([]+)\\s*(?:\\((?:${NAME}|[^"()])*\\))?\\s*values\\s*(?=\\()`,
  'i',
)
const VALUE = new RegExp(`${TEXT}|\\binf\\b`, 'gi')
/** What libsql-server writes that nothing reads: infinite numbers, and texts with U+0000. */
const UNREADABLE = /\binf\b|\0/i

/** An INSERT of a dump whose values can be read. */
function withReadableValues(sql: string): string {
  const [head] = (UNREADABLE.test(sql) && INSERT.exec(sql)) || []
  if (head === undefined) return sql
  const values = sql.slice(head.length).replace(VALUE, (value) => {
    if (!value.startsWith("'")) return '9e999'
    return value.includes('\0') ? `CAST(X'${hexOf(unquoted(value))}' AS TEXT)` : value
  })
  return head + values
}

const hexOf = (text: string): string =>
  Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, '0')).join('')

/** What is meant by a text or a name as SQL writes it. */
function unquoted(written: string): string {
  const mark = written[0] as string
  return /['"]/.test(mark) ? written.slice(1, -1).replaceAll(mark + mark, mark) : written
}
