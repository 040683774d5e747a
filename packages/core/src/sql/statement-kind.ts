import { BLANK, START, verbOf } from './verb.ts'

/**
 * What a statement does, as far as its text tells:
 * - `begin`, `commit` (also END), `rollback`: begins or ends a transaction;
 * - `savepoint`: marks a point, and begins a transaction where there is none; `release`: RELEASE, or ROLLBACK TO;
 * - `session`: changes its connection for what follows: ATTACH, DETACH, a PRAGMA that sets something;
 * - `read`: certainly changes nothing, so that it may run twice; `insert`: INSERT or REPLACE; `change`: UPDATE or DELETE;
 * - `other`: all else, such as DDL and a PRAGMA that reads.
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

const TO_SAVEPOINT = new RegExp(`${START}rollback\\b(?:${BLANK})*(?:transaction\\b(?:${BLANK})*)?to\\b`, 'i')
const SETS = new RegExp(`${START}pragma\\b[^=(]*(?:=|\\(\\s*(?:-?\\d|on|off|true|false|yes|no)\\b)`, 'i')
const GAP = `(?:${BLANK})+`
// with the name that SQLite lets a transaction have
const WHOLE_CONTROL = new RegExp(
  `${START}(?:begin(?:${GAP}(?:deferred|immediate|exclusive|readonly))?|commit|end|rollback)(?:${GAP}transaction(?:${GAP}(?!transaction)(["']?)\\w+\\1)?)?(?:;|${BLANK})*$`,
  'i',
)
const CHANGES = /\b(?:insert|update|delete|replace)\b/i
const INSERTS = /\b(?:insert(?:\s+or\s+\w+)?|replace)\s+into\b/i

/** What a statement does. Conservative: a word such as DELETE, also in quotes, makes a WITH a change. */
export function statementKind(sql: string): StatementKind {
  const verb = verbOf(sql)
  if (verb === 'with' && CHANGES.test(sql)) return INSERTS.test(sql) ? 'insert' : 'change'
  if (verb === 'rollback' && TO_SAVEPOINT.test(sql)) return 'release'
  if (verb === 'pragma' && !SETS.test(sql)) return 'other'
  return KINDS.get(verb) ?? 'other'
}

/** Whether a statement begins or ends a transaction. */
export const isControl = (kind: StatementKind): kind is 'begin' | 'commit' | 'rollback' =>
  kind === 'begin' || kind === 'commit' || kind === 'rollback'

/**
 * Refuses text after BEGIN, COMMIT, END or ROLLBACK. Such a statement is carried out by a method and not sent as it is, so
 * that the server could not object.
 * @throws SyntaxError @param place where the statement is in its script, for the message
 */
export function checkControl(sql: string, place = ''): void {
  if (!WHOLE_CONTROL.test(sql))
    throw new SyntaxError(`${place}unexpected text after ${verbOf(sql).toUpperCase()}`)
}

/**
 * Whether a statement leaves no trace on its connection, so that others may follow it there. Conservative: DDL may make a
 * temporary table.
 */
export const canShareConnection = (kind: StatementKind): boolean =>
  kind === 'read' || kind === 'insert' || kind === 'change'
