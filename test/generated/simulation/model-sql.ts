/** A statement that the model of the server supports. */
export type Command =
  | {
      readonly kind: 'insert'
      readonly table: 't' | 'child' | 'parent'
      readonly conflict: 'abort' | 'fail' | 'rollback'
      /** A null row violates a constraint. */
      readonly rows: readonly (number | null)[]
      readonly isReturning: boolean
    }
  | { readonly kind: 'select' | 'constant' | 'nothing' | 'assertion' | 'missing table' }
  | { readonly kind: 'large' | 'unreadable' }
  /** Fails unless the table has exactly these rows. */
  | { readonly kind: 'guard'; readonly rows: readonly (number | null)[] }
  | { readonly kind: 'begin'; readonly mode: 'immediate' | 'deferred'; readonly isReadonly: boolean }
  | { readonly kind: 'commit' | 'rollback' }
  | { readonly kind: 'savepoint' | 'release' | 'rollback to'; readonly name: string }
  | { readonly kind: 'unparsable'; readonly message: string }

const COMMENT = /^\s*(?:\/\*.*?\*\/\s*)*|\s*\/\*[^*]*\*\/\s*$/g
const INSERT = /^insert(?: or (abort|fail|rollback))? into (t|child|parent) values (\(.*?\))( returning a)?$/i
const GUARD =
  /^with baton\(c0\) as \(select a from t order by rowid \/\*[^*]*\*\/\n\).* then json\('conflict'\) end$/s
const BEGIN = /^begin(?: (immediate|exclusive|deferred|readonly))?(?: transaction)?$/i
const SAVEPOINT = /^(savepoint|release|rollback to)(?: savepoint)? "?(\w+)"?$/i

/** Parses one statement. @param args values for its question marks */
export function parse(text: string, args: readonly (number | null)[] = []): Command {
  const sql = text.replace(COMMENT, '').replace(/;\s*$/, '')
  const [, conflict = 'abort', table, values = '', returning] = INSERT.exec(sql) ?? []
  if (table) {
    let argIndex = 0
    const rows = [...values.matchAll(/\(([^,)]*)/g)].map(([, value = '']) => {
      const bound = value === '?' ? (args[argIndex++] ?? null) : value
      return bound === null || bound === 'null' ? null : Number(bound)
    })
    return { kind: 'insert', table, conflict, rows, isReturning: returning !== undefined } as Command
  }
  if (sql === 'select a from t order by rowid') return { kind: 'select' }
  if (GUARD.test(sql)) return { kind: 'guard', rows: args }
  const [beginText, mode = 'deferred'] = BEGIN.exec(sql) ?? []
  if (beginText)
    return {
      kind: 'begin',
      mode: /immediate|exclusive/i.test(mode) ? 'immediate' : 'deferred',
      isReadonly: /readonly/i.test(mode),
    }
  if (/^(commit|end)$/i.test(sql)) return { kind: 'commit' }
  if (/^rollback$/i.test(sql)) return { kind: 'rollback' }
  const [, verb, name] = SAVEPOINT.exec(sql) ?? []
  if (verb && name) return { kind: verb.toLowerCase() as 'savepoint', name }
  return parseOther(sql)
}

function parseOther(sql: string): Command {
  if (/^select\s+1$/i.test(sql)) return { kind: 'constant' }
  if (sql.startsWith("select case when true then json('")) return { kind: 'assertion' }
  if (sql === 'select hex(zeroblob(2400000)) as a') return { kind: 'large' }
  if (sql === "select cast(x'ff' as text) as a") return { kind: 'unreadable' }
  if (/^select a from missing$/i.test(sql)) return { kind: 'missing table' }
  if (/^pragma (foreign_keys = off|table_info\(t\))$/i.test(sql)) return { kind: 'nothing' }
  const message = `SQL string could not be parsed: syntax error around L1:${sql.length}: \`${sql}\``
  return { kind: 'unparsable', message }
}
