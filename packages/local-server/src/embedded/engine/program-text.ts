import { parseError, parseStatements, type Statement } from '../../sql/statement.ts'
import { type SyntaxProblem, syntaxProblem } from './error-mapping.ts'
import { DeniedError, SqliteError } from './sqlite-connection.ts'

const CACHE_ENTRIES = 1_000
const CACHE_TEXT_LENGTH = 10_000

/** Has the engine compile a statement where that has no effect; throws its error. */
export type SyntaxCheck = (sql: string) => unknown

/** Takes SQL texts apart, and remembers those it has seen: an application sends the same few texts all the time. */
export class ProgramTexts {
  readonly #seen = new Map<string, readonly Statement[]>()
  readonly #forgives: boolean

  /** With `forgives` an incomplete statement after the first is left out without a word, as libsql-server does. */
  constructor(forgives: boolean) {
    this.#forgives = forgives
  }

  /** The statements of a text. @throws ResultError when one of them has no valid syntax */
  parse(text: string, check: SyntaxCheck): readonly Statement[] {
    const seen = this.#seen.get(text)
    if (seen !== undefined) return seen
    const statements = checked(text, parseStatements(text), check, this.#forgives)
    if (text.length <= CACHE_TEXT_LENGTH) {
      if (this.#seen.size >= CACHE_ENTRIES) this.#seen.delete(this.#seen.keys().next().value as string)
      this.#seen.set(text, statements)
    }
    return statements
  }
}

function checked(
  text: string,
  statements: readonly Statement[],
  check: SyntaxCheck,
  forgives: boolean,
): readonly Statement[] {
  const kept: Statement[] = []
  const known = new Set<string>()
  let wasLeftOut = false
  for (const statement of statements) {
    // a dump repeats itself
    const isKnown = known.has(statement.sql)
    const problem = isKnown ? null : findProblem(text, statement, kept.length === 0, check)
    if (problem !== null) {
      if (!forgives || kept.length === 0 || !problem.isIncomplete || wasLeftOut) throw problem.error
      wasLeftOut = true
      continue
    }
    wasLeftOut = false
    if (statement.kind === 'unknown') throw parseError(`unsupported statement: ${text}`)
    known.add(statement.sql)
    kept.push(statement)
  }
  return kept
}

function findProblem(
  text: string,
  statement: Statement,
  isFirst: boolean,
  check: SyntaxCheck,
): SyntaxProblem | null {
  try {
    check(statement.sql)
    return null
  } catch (error) {
    // the connection it is checked on has no tables: only syntax counts here
    if (error instanceof DeniedError) return null
    if (!(error instanceof SqliteError)) throw error
    return syntaxProblem(error.message, text, statement, isFirst)
  }
}
