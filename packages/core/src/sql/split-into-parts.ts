import { placeOf, type ScriptStatement } from './script.ts'
import { checkControl, isControl, setsForeignKeys, statementKind } from './statement-kind.ts'

/** Consecutive statements of a script that belong together. */
export interface ScriptPart {
  /** The control statements of a transaction; null for statements that are committed individually. */
  readonly transaction: {
    readonly begin: ScriptStatement
    readonly end: ScriptStatement
    readonly endKind: 'commit' | 'rollback'
  } | null
  readonly statements: readonly ScriptStatement[]
  /** Index of its first statement in the whole script, which counts BEGIN; for an empty transaction, index of its end. */
  readonly offset: number
}

/**
 * Divides a script into transactions and other statements.
 * @throws SyntaxError if BEGIN and its end do not match or are followed by other text, and for what a script may not do: set a
 * savepoint outside a transaction, or foreign keys inside one
 */
export function splitIntoParts(statements: readonly ScriptStatement[]): ScriptPart[] {
  const parts: ScriptPart[] = []
  let openBegin: ScriptStatement | null = null
  let from = 0
  const cut = (to: number, transaction: ScriptPart['transaction']): void => {
    if (to > from || transaction)
      parts.push({ transaction, statements: statements.slice(from, to), offset: from })
    from = to + 1
  }
  const reject = (statement: ScriptStatement, message: string): never => {
    throw new SyntaxError(placeOf(statement) + message)
  }
  for (const [index, statement] of statements.entries()) {
    const kind = statementKind(statement.sql)
    if (!isControl(kind)) {
      // the savepoint begins a transaction, which the client does not track
      if (!openBegin && (kind === 'savepoint' || kind === 'release'))
        reject(statement, 'a savepoint outside a transaction: put BEGIN and COMMIT around it')
      if (openBegin && setsForeignKeys(statement.sql, kind))
        reject(statement, 'PRAGMA foreign_keys has no effect inside a transaction: put it before BEGIN')
      continue
    }
    if ((kind === 'begin') !== (openBegin === null))
      reject(statement, openBegin ? 'a transaction is already open' : 'no transaction is open')
    checkControl(statement.sql, placeOf(statement))
    cut(index, openBegin && kind !== 'begin' ? { begin: openBegin, end: statement, endKind: kind } : null)
    openBegin = kind === 'begin' ? statement : null
  }
  if (openBegin) reject(openBegin, 'the transaction is never committed')
  cut(statements.length, null)
  return parts
}
