// SQLite's whitespace and comments; an unterminated comment extends to the end of the text. Each alternative can end in only one
// way, so that the expression never backtracks.
export const BLANK = String.raw`[ \t\n\f\r\ufeff]|--[^\n]*(?:\n|$)|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/|$)`
export const STATEMENT_START = `^(?:[;(]|${BLANK})*`
const VERB = new RegExp(`${STATEMENT_START}([a-z]+)`, 'i')

/** Matches quoted text with doubled quotes. Has no alternation in the loop, which would overflow the stack for long text. */
export const quotedBy = (mark: string): string =>
  `${mark}[^${mark}]*(?:${mark}${mark}[^${mark}]*)*${mark}(?!${mark})`

/** Returns the first word of a statement in lower case, after whitespace and comments; empty if there is none. */
export const getVerb = (sql: string): string => VERB.exec(sql)?.[1]?.toLowerCase() ?? ''
