import { ProtocolError } from '../base/errors.ts'
import { isControl, statementKind } from '../sql/statement-kind.ts'
import { quotedBy } from '../sql/verb.ts'
import { unquote, withExactLiterals } from './exact-literals.ts'
import { readStatements, type ScriptSource } from './statement-reader.ts'
import { readVirtualTable } from './virtual-table.ts'

/** Maximum number of characters and of statements in one request; the results must fit into one response of 10 MB. */
const BATCH_LENGTH = 1_000_000
const BATCH_STATEMENTS = 20_000

/** Statements that are applied in one transaction. */
export interface RestoreBatch {
  /** The statements, each with the number (from 0) of the source statement it comes from. */
  readonly statements: readonly { readonly sql: string; readonly sourceIndex: number }[]
  /** Number of the first statement of the source after this batch. */
  readonly end: number
  /** Total length of the statements' text, in characters. */
  readonly length: number
  readonly isLast: boolean
}

/**
 * Divides a dump into batches, each a transaction, and translates its statements into ones that a server accepts from clients.
 * @throws ProtocolError for a source that is truncated or rolls back
 */
export async function* splitIntoBatches(source: ScriptSource): AsyncGenerator<RestoreBatch, void, undefined> {
  const translator = new DumpTranslator()
  /** The last full batch; not yielded until it is known whether another follows. */
  let pendingBatch: RestoreBatch | null = null
  let statements: RestoreBatch['statements'][number][] = []
  let length = 0
  let end = 0
  for await (const { sql } of readStatements(source)) {
    const isFull = length + sql.length > BATCH_LENGTH || statements.length >= BATCH_STATEMENTS
    if (isFull && statements.length > 0) {
      if (pendingBatch) yield pendingBatch
      pendingBatch = { statements, end, length, isLast: false }
      statements = []
      length = 0
    }
    for (const translated of translator.translate(sql)) {
      statements.push({ sql: translated, sourceIndex: end })
      length += translated.length
    }
    end += 1
  }
  if (translator.isOpen) throw new ProtocolError('the script ends before its COMMIT')
  if (pendingBatch === null && statements.length === 0 && !translator.hasTransaction)
    throw new ProtocolError('the script has no statements: is it the right file?')
  if (pendingBatch) yield pendingBatch
  yield { statements, end, length, isLast: true }
}

/** Translates the statements of a dump into equivalents that are valid in a batch. */
class DumpTranslator {
  /** Whether a transaction of the dump is open. */
  isOpen = false
  /** Whether the dump has a transaction: even a dump of an empty database has one. */
  hasTransaction = false
  readonly #virtualTables: string[] = []
  /** Tables that may be shadow tables of a virtual table that follows, as after a VACUUM. */
  readonly #possibleShadows = new Set<string>()

  /**
   * Translates one statement. @returns an empty array for a statement that the batch makes unnecessary
   * @throws ProtocolError for a statement that a complete dump never contains
   */
  translate(sql: string): string[] {
    const kind = statementKind(sql)
    if (kind === 'rollback') throw new ProtocolError('the script rolls back: the dump failed')
    if (isControl(kind)) {
      this.isOpen = kind === 'begin'
      this.hasTransaction = true
      return []
    }
    if (kind === 'savepoint' || kind === 'release') throw new ProtocolError('a dump has no savepoints')
    // statistics are not restored: servers reject ANALYZE
    if (PRAGMA.test(sql) || STATISTICS.test(sql)) return []
    // a dump has this statement if any table ever used AUTOINCREMENT, even one that was dropped
    if (CLEAR_SEQUENCE.test(sql)) return [...CREATE_SEQUENCE, sql]
    // a dump inserts a virtual table into the schema, which clients may not do, and then creates its shadow tables
    const virtualTable = readVirtualTable(sql)
    if (virtualTable !== null) {
      this.#virtualTables.push(virtualTable.name)
      return this.#createVirtualTable(virtualTable)
    }
    const [, target] = INSERT.exec(sql) ?? []
    // Python's iterdump() writes the rows of a virtual table, which its shadow tables have too
    if (target !== undefined && this.#virtualTables.includes(unquote(target))) return []
    const [head = '', table = ''] = CREATE_TABLE.exec(sql) ?? []
    const isShadow = this.#virtualTables.some((name) => unquote(table).startsWith(`${name}_`))
    if (!isShadow && SHADOW.test(table)) this.#possibleShadows.add(unquote(table))
    if (!isShadow) return [withExactLiterals(sql)]
    // creating the virtual table has already created this shadow table, with rows that the dump contains too
    return [`CREATE TABLE IF NOT EXISTS ${table}${sql.slice(head.length)}`, `delete from ${table}`]
  }

  /** Creates a virtual table. Its shadow tables that exist already make way for those that it creates, which take their rows. */
  #createVirtualTable({
    name,
    definition,
  }: {
    readonly name: string
    readonly definition: string
  }): string[] {
    const module = /\busing\s+["'`[]?(\w+)/i.exec(definition)?.[1]?.toLowerCase() ?? ''
    // an external content table has rows of its own
    const ownsContent = !/\bcontent\s*=/i.test(definition)
    const shadows = (SHADOWS[module] ?? [])
      .filter((suffix) => ownsContent || suffix !== '_content')
      .map((suffix) => name + suffix)
      .filter((shadow) => this.#possibleShadows.delete(shadow))
    const temporary = (shadow: string): string => quote(`baton_restore_${shadow}`)
    return [
      ...shadows.map((shadow) => `alter table ${quote(shadow)} rename to ${temporary(shadow)}`),
      definition,
      ...shadows.flatMap((shadow) => [
        `delete from ${quote(shadow)}`,
        `insert into ${quote(shadow)} select * from ${temporary(shadow)}`,
        `drop table ${temporary(shadow)}`,
      ]),
    ]
  }
}

const RTREE = ['_node', '_rowid', '_parent']
/** Suffixes of the shadow tables, by module. */
const SHADOWS: Readonly<Record<string, readonly string[]>> = {
  fts5: ['_data', '_idx', '_content', '_docsize', '_config'],
  fts4: ['_content', '_segments', '_segdir', '_docsize', '_stat'],
  fts3: ['_content', '_segments', '_segdir'],
  rtree: RTREE,
  rtree_i32: RTREE,
  geopoly: RTREE,
}
const SHADOW = /_(?:data|idx|content|docsize|config|segments|segdir|stat|node|rowid|parent)['"]?$/
const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

const STATISTICS = /^(?:analyze\b|(?:insert into|delete from) ["']?sqlite_stat\d)/i
const CLEAR_SEQUENCE = /^delete from ["']?sqlite_sequence["']?$/i
/** SQLite creates `sqlite_sequence` with the first AUTOINCREMENT table. */
const CREATE_SEQUENCE = [
  'create table baton_restore_sequence (n integer primary key autoincrement)',
  'drop table baton_restore_sequence',
]
const PRAGMA = /^pragma\s+(?:foreign_keys|writable_schema)\s*=/i
const TEXT = /* @__PURE__ */ quotedBy("'")
const NAME = /* @__PURE__ */ quotedBy('"')
const CREATE_TABLE = /* @__PURE__ */ (() =>
  new RegExp(`^create table (?:if not exists )?(${TEXT}|${NAME}|\\w+)`, 'i'))()
const INSERT = /* @__PURE__ */ (() => new RegExp(`^insert into (${TEXT}|${NAME}|\\w+)`, 'i'))()
