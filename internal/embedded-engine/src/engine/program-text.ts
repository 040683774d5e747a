import { parseError, parseStatements, type Statement } from '@batonsql/server-common/sql'
import { type SyntaxProblem, syntaxProblem } from './error-mapping.ts'
import { DeniedError, SqliteError } from './sqlite-connection.ts'

const CACHE_ENTRIES = 1_000
const CACHE_TEXT_LENGTH = 10_000

/** Compiles a statement without side effects; throws its error. */
export type SyntaxCheck = (sql: string) => unknown

/** Parses SQL text, and caches the result, because applications usually repeat the same few statements. */
export class ProgramTexts {
  readonly #seen = new Map<string, readonly Statement[]>()
  readonly #dropsIncomplete: boolean

  /** @param dropsIncomplete whether an incomplete statement after the first is silently dropped, as in libsql-server */
  constructor(dropsIncomplete: boolean) {
    this.#dropsIncomplete = dropsIncomplete
  }

  /** Parses SQL text into statements. @throws ResultError for a syntax error */
  parse(text: string, check: SyntaxCheck): readonly Statement[] {
    const seen = this.#seen.get(text)
    if (seen !== undefined) return seen
    const statements = checked(text, parseStatements(text), check, this.#dropsIncomplete)
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
  dropsIncomplete: boolean,
): readonly Statement[] {
  const kept: Statement[] = []
  const known = new Set<string>()
  let wasDropped = false
  for (const statement of statements) {
    // statements of a dump are repetitive
    const isKnown = known.has(statement.sql)
    const problem = isKnown ? null : findProblem(text, statement, kept.length === 0, check)
    if (problem !== null) {
      if (!dropsIncomplete || kept.length === 0 || !problem.isIncomplete || wasDropped) throw problem.error
      wasDropped = true
      continue
    }
    wasDropped = false
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
    // the connection for syntax checks has no tables, so only syntax errors matter
    if (error instanceof DeniedError) return null
    if (!(error instanceof SqliteError)) throw error
    return syntaxProblem(error.message, text, statement, isFirst)
  }
}
