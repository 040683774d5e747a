import { withoutComments } from '../codec/statement.ts'

const COMMAND =
  /^[\s;]*(savepoint|release|rollback)\b(?:\s+transaction\b)?(?:\s+to\b)?(?:\s+savepoint\b)?\s+(.+?)[\s;]*$/is

/**
 * Savepoints written as SQL on a stream where nobody wrote BEGIN: for SQLite the outermost of them begins a transaction, and
 * its RELEASE commits. A transaction that nobody knows of would go without guards, so these become BEGIN and COMMIT.
 */
export class RawSavepoints {
  #names: string[] = []

  /** Follows a statement. @returns whether it is the beginning or the end of a transaction */
  follow(sql: string, inTransaction: boolean): 'begin' | 'commit' | null {
    if (!inTransaction) this.#names = []
    const isOurs = !inTransaction || this.#names.length > 0
    const [, verb, written = ''] = (isOurs && COMMAND.exec(withoutComments(sql))) || []
    if (verb === undefined) return null
    const name = written.replace(/^["'`[]|["'`\]]$/g, '').toLowerCase()
    if (/^savepoint$/i.test(verb)) return this.#names.push(name) === 1 ? 'begin' : null
    const at = this.#names.lastIndexOf(name)
    if (at < 0) return null
    const isRelease = /^release$/i.test(verb)
    this.#names.length = isRelease ? at : at + 1
    return isRelease && at === 0 ? 'commit' : null
  }
}
