import type { Sql } from './history.ts'

/** Returns a comment that identifies the requests of a call. */
export const callMark = (call: number): string => `/* call ${call} */`

/** Returns the text of a statement. @param tag the number that it writes */
export function statementText(sql: Sql, tag: number, call: number): string {
  const text = STATEMENT_TEXTS[sql](tag)
  return hasMark(sql) ? `${text} ${callMark(call)}` : text
}

/**
 * Returns whether a statement has a mark that identifies its requests. Statements without one are as short as handwritten ones.
 */
export const hasMark = (sql: Sql): boolean => !/^(begin|commit|rollback)$| p$/.test(sql)

/** Returns the text of each statement. A write inserts its tag. */
const STATEMENT_TEXTS: Readonly<Record<Sql, (tag: number) => string>> = {
  insert: (tag) => `insert into t values (${tag})`,
  returning: (tag) => `insert into t values (${tag}) returning a`,
  select: () => 'select a from t order by rowid',
  'commented select': () => '/* read */ select a from t order by rowid',
  large: () => 'select hex(zeroblob(2400000)) as a',
  unreadable: () => "select cast(x'ff' as text) as a",
  constraint: () => 'insert into t values (null)',
  'or rollback': () => 'insert or rollback into t values (null)',
  'or fail': (tag) => `insert or fail into t values (${tag}), (null)`,
  unparsable: () => 'selec',
  'missing table': () => 'select a from missing',
  pragma: () => 'pragma table_info(t)',
  child: (tag) => `insert into child values (${tag}, ${tag})`,
  parent: (tag) => `insert into parent values (${tag})`,
  'savepoint p': () => 'savepoint p',
  'rollback to p': () => 'rollback to p',
  'release p': () => 'release p',
  begin: () => 'begin immediate',
  commit: () => 'commit',
  'commit; insert': (tag) => `commit; insert into t values (${tag})`,
  rollback: () => 'rollback',
}

/** Statements that write a row that can be distinguished from all others. */
export const WRITING: ReadonlySet<Sql> = new Set([
  'insert',
  'returning',
  'or fail',
  'child',
  'commit; insert',
])
