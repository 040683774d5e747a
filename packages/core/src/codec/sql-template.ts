import { describeType } from '@batonsql/options'
import type { InValue } from './value.ts'

/** A value, which becomes an argument, or a fragment, which becomes part of the text. */
export type SqlPart = InValue | SqlFragment

/** SQL text with positional arguments, as {@link sql} returns it: a statement or a part of one. */
export class SqlFragment {
  readonly sql: string
  readonly args: readonly InValue[]

  /**
   * Puts each part after the text with the same index.
   * @internal
   */
  constructor(texts: readonly string[], parts: readonly SqlPart[]) {
    const pieces = [texts[0] ?? '']
    for (const [index, part] of parts.entries())
      pieces.push(part instanceof SqlFragment ? part.sql : '?', texts[index + 1] ?? '')
    let before = ''
    for (const [index, piece] of pieces.entries()) {
      // otherwise a digit after a placeholder would become its number
      if (before.endsWith('?') && /^\d/.test(piece)) pieces[index] = ` ${piece}`
      before = piece || before
    }
    this.sql = pieces.join('')
    this.args = parts.flatMap((part) => (part instanceof SqlFragment ? part.args : [part]))
  }
}

function template(texts: TemplateStringsArray, ...parts: readonly SqlPart[]): SqlFragment {
  if (!Array.isArray(texts?.raw)) throw new TypeError('sql is a template tag: write sql`…`, not sql(…)')
  // a tagged template with an invalid escape is legal JavaScript, and has no text there
  const invalid = (texts as readonly (string | undefined)[]).indexOf(undefined)
  if (invalid >= 0)
    throw new TypeError(
      `text ${invalid + 1} of the template has an invalid escape: ${texts.raw[invalid]} (write \\\\ for a backslash, or pass the text as a value)`,
    )
  return new SqlFragment(texts, parts)
}

function identifier(...path: readonly string[]): SqlFragment {
  const wrong = path.length === 0 ? [undefined] : path.filter((name) => typeof name !== 'string')
  if (wrong.length > 0)
    throw new TypeError(`sql.identifier expects names as strings, not ${describeType(wrong[0])}`)
  return new SqlFragment([path.map((name) => `"${name.replaceAll('"', '""')}"`).join('.')], [])
}

function join(parts: readonly SqlPart[], separator: SqlFragment = template`, `): SqlFragment {
  if (!Array.isArray(parts))
    throw new TypeError(`sql.join expects an array of values and fragments, not ${describeType(parts)}`)
  // a string would become an argument between the others
  if (!(separator instanceof SqlFragment))
    throw new TypeError(
      `the separator of sql.join must be made with sql\`…\`, not ${describeType(separator)}`,
    )
  return new SqlFragment(
    [],
    Array.from(parts).flatMap((part, index) => (index === 0 ? [part] : [separator, part])),
  )
}

/** Type of {@link sql}. */
export interface SqlTemplate {
  (texts: TemplateStringsArray, ...parts: readonly SqlPart[]): SqlFragment
  /** Quotes a name, or a path such as `sql.identifier('main', 'pet')`. */
  identifier(...path: readonly string[]): SqlFragment
  /** Joins values and fragments: `` sql`id in (${sql.join(ids)})` ``. @default separator a comma */
  join(parts: readonly SqlPart[], separator?: SqlFragment): SqlFragment
}

/**
 * Creates a statement from a template literal: `` db.execute<Pet>(sql`select * from pet where id = ${id}`) ``. Values become
 * arguments, never part of the text; fragments, also made with `sql`, become part of the text. Do not write placeholders by hand.
 * @throws TypeError for text with an invalid escape, such as `\users`: write two backslashes
 */
export const sql: SqlTemplate = /* @__PURE__ */ Object.assign(template, { identifier, join })
