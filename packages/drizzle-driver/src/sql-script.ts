// Strings and quoted names, comments, words, space, and every other character by itself.
const TOKEN =
  /'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|\/\*[^]*?\*\/|[a-z_]\w*|\s+|[^]/gi
const INSIGNIFICANT = /^(?:\s|--|\/\*)/

/**
 * Takes a script apart into its statements, because the server runs no more than one at a time. Semicolons in strings,
 * comments and the bodies of triggers part nothing; what has only comments is left out.
 */
export function splitStatements(script: string): string[] {
  const statements: string[] = []
  let text = ''
  /** The first words, which tell a trigger. */
  let start: string[] = []
  let depth = 0
  const finish = (): void => {
    if (start.length > 0) statements.push(text.trim())
    text = ''
    start = []
    depth = 0
  }
  for (const [token] of script.matchAll(TOKEN)) {
    if (token === ';' && depth === 0) {
      finish()
      continue
    }
    text += token
    if (INSIGNIFICANT.test(token)) continue
    const word = token.toLowerCase()
    if (start.length < 3) start.push(word)
    if (!/^create (?:temp(?:orary)? )?trigger\b/.test(start.join(' '))) continue
    if (word === 'begin' || word === 'case') depth += 1
    else if (word === 'end') depth -= 1
  }
  finish()
  return statements
}
