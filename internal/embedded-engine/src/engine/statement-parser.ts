import { parseError, parseStatements, type Statement } from '@batonsql/server-common/sql'
import { findSyntaxProblem, type SyntaxProblem } from './error-mapping.ts'

const MAX_CACHED_TEXTS = 1_000
/** Longer texts, such as dumps, are not cached. */
const MAX_CACHED_CHARACTERS = 10_000

/** Compiles a statement without side effects, on a connection without tables. @returns the message of its error, or null */
export type SyntaxCheck = (sql: string) => string | null

/** Parses SQL text, and caches the result, because applications usually repeat the same few statements. */
export class StatementParser {
  readonly #cache = new Map<string, readonly Statement[]>()
  readonly #dropsIncomplete: boolean

  /** @param dropsIncomplete whether an incomplete statement is silently dropped after an accepted one, as in libsql-server */
  constructor(dropsIncomplete: boolean) {
    this.#dropsIncomplete = dropsIncomplete
  }

  /** Parses SQL text into statements. @throws ResultError for a syntax error */
  parse(text: string, check: SyntaxCheck): readonly Statement[] {
    const cached = this.#cache.get(text)
    if (cached !== undefined) return cached
    const statements = checkStatements(text, parseStatements(text), check, this.#dropsIncomplete)
    if (text.length <= MAX_CACHED_CHARACTERS) {
      if (this.#cache.size >= MAX_CACHED_TEXTS) this.#cache.delete(this.#cache.keys().next().value as string)
      this.#cache.set(text, statements)
    }
    return statements
  }
}

function checkStatements(
  text: string,
  statements: readonly Statement[],
  check: SyntaxCheck,
  dropsIncomplete: boolean,
): readonly Statement[] {
  const accepted: Statement[] = []
  const checkedTexts = new Set<string>()
  let wasDropped = false
  for (const statement of statements) {
    // a dump often has the same statement many times
    const isChecked = checkedTexts.has(statement.sql)
    const problem = isChecked ? null : findProblem(text, statement, accepted.length === 0, check)
    if (problem !== null) {
      if (!dropsIncomplete || accepted.length === 0 || !problem.isIncomplete || wasDropped)
        throw problem.error
      wasDropped = true
      continue
    }
    wasDropped = false
    if (statement.kind === 'unknown') throw parseError(`unsupported statement: ${text}`)
    checkedTexts.add(statement.sql)
    accepted.push(statement)
  }
  return accepted
}

function findProblem(
  text: string,
  statement: Statement,
  isFirst: boolean,
  check: SyntaxCheck,
): SyntaxProblem | null {
  const message = check(statement.sql)
  // without tables, only syntax errors matter
  return message === null ? null : findSyntaxProblem(message, text, statement, isFirst)
}
