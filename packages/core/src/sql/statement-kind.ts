import { BLANK, getVerb, STATEMENT_START } from './verb.ts'

/**
 * What a statement does, judging by its text:
 * - `begin`, `commit` (also END), `rollback`: begins or ends a transaction;
 * - `savepoint`: sets a savepoint, and begins a transaction if none is open; `release`: RELEASE, or ROLLBACK TO;
 * - `session`: changes its connection for later statements: ATTACH, DETACH, a PRAGMA that sets a value;
 * - `read`: known to be read-only, so it may run twice; `insert`: INSERT or REPLACE; `change`: UPDATE or DELETE;
 * - `pragma`: a PRAGMA without a value, which usually only reads;
 * - `other`: everything else, such as DDL.
 */
export type StatementKind =
  | 'begin'
  | 'commit'
  | 'rollback'
  | 'savepoint'
  | 'release'
  | 'session'
  | 'read'
  | 'insert'
  | 'change'
  | 'pragma'
  | 'other'

const KINDS = new Map<string, StatementKind>(
  Object.entries({
    begin: 'begin',
    commit: 'commit',
    end: 'commit',
    rollback: 'rollback',
    savepoint: 'savepoint',
    release: 'release',
    attach: 'session',
    detach: 'session',
    pragma: 'session',
    select: 'read',
    values: 'read',
    explain: 'read',
    with: 'read',
    insert: 'insert',
    replace: 'insert',
    update: 'change',
    delete: 'change',
  }),
)

const ROLLBACK_TO_SAVEPOINT = new RegExp(
  `${STATEMENT_START}rollback\\b(?:${BLANK})*(?:transaction\\b(?:${BLANK})*)?to\\b`,
  'i',
)
const NAME = `(?:(?:"[^"]*")+|(?:'[^']*')+|(?:\`[^\`]*\`)+|\\[[^\\]]*\\]|[\\w$\\u0080-\\uffff]+)`
const GAP = `(?:${BLANK})*`
/** Returns an expression for a PRAGMA with a value or an argument, after `=` or in parentheses. */
const pragma = (name: string): RegExp =>
  new RegExp(
    `${STATEMENT_START}pragma${GAP}(?:${NAME}${GAP}\\.${GAP})?["'\`[]?${name}["'\`\\]]?${GAP}[=(]`,
    'i',
  )
/** Matches the pragmas that set a value: all but those whose argument is a table, an index, or a number of errors. */
const PRAGMA_WITH_VALUE = pragma(
  '(?!(?:table|index|foreign_key)_|(?:integrity|quick)_check)[\\w$\\u0080-\\uffff]+',
)
const FOREIGN_KEYS_PRAGMA = pragma('foreign_keys')
const CHANGE_WORD = /\b(?:insert|update|delete|replace(?!\s*\())\b/i
const INSERT_WORDS = /\b(?:insert(?:\s+or\s+\w+)?|replace)\s+into\b/i

/** Classifies a statement. Conservative: a WITH that contains a word such as DELETE, even in quotes, counts as a change. */
export function statementKind(sql: string): StatementKind {
  const verb = getVerb(sql)
  if (verb === 'with' && CHANGE_WORD.test(sql)) return INSERT_WORDS.test(sql) ? 'insert' : 'change'
  if (verb === 'rollback' && ROLLBACK_TO_SAVEPOINT.test(sql)) return 'release'
  if (verb === 'pragma' && !PRAGMA_WITH_VALUE.test(sql)) return 'pragma'
  return KINDS.get(verb) ?? 'other'
}

/** Whether a statement turns foreign keys on or off, which SQLite ignores inside a transaction. Any value that is not on is off. */
export const setsForeignKeys = (sql: string, kind = statementKind(sql)): boolean =>
  kind === 'session' && FOREIGN_KEYS_PRAGMA.test(sql)

/** Whether a statement begins or ends a transaction. */
export const isControl = (kind: StatementKind): kind is 'begin' | 'commit' | 'rollback' =>
  kind === 'begin' || kind === 'commit' || kind === 'rollback'

/**
 * Rejects text after BEGIN, COMMIT, END or ROLLBACK. Such a statement is replaced by a method call instead of being sent, so the
 * server cannot reject it.
 * @returns the mode of BEGIN, in lower case; undefined if there is none
 * @throws SyntaxError
 * @param prefix beginning of the message, such as `line 3, column 1: `
 */
export function checkControl(sql: string, prefix = ''): string | undefined {
  const gap = `(?:${BLANK})+`
  // made here, so that bundles without this function omit it; SQLite allows a name after TRANSACTION
  const pattern = new RegExp(
    `${STATEMENT_START}(?:begin(?:${gap}(deferred|immediate|exclusive|readonly|concurrent))?|commit|end|rollback)(?:${gap}transaction(?:${gap}(?!transaction)(["']?)\\w+\\2)?)?(?:;|${BLANK})*$`,
    'i',
  )
  const match = pattern.exec(sql)
  if (!match) throw new SyntaxError(`${prefix}unexpected text after ${getVerb(sql).toUpperCase()}`)
  return match[1]?.toLowerCase()
}

/**
 * Whether a statement leaves its connection unchanged, so unrelated statements may use the connection afterwards. Conservative:
 * DDL may create a temporary table.
 */
export const canShareConnection = (kind: StatementKind): boolean =>
  kind === 'read' || kind === 'insert' || kind === 'change'
