// Blanks, as SQLite has them, and comments; one that is not ended goes to the end of the text. Each alternative ends in one way
// only, so that nothing is tried twice.
export const BLANK = String.raw`[ \t\n\f\r\ufeff]|--[^\n]*(?:\n|$)|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/|$)`
export const START = `^(?:[;(]|${BLANK})*`
const VERB = new RegExp(`${START}([a-z]+)`, 'i')

/** The first word of a statement, in lower case, behind blanks and comments; empty when there is none. */
export const verbOf = (sql: string): string => VERB.exec(sql)?.[1]?.toLowerCase() ?? ''

/** A statement without the blanks and comments in front. */
export const trimStart = (sql: string): string => sql.replace(new RegExp(START), '')
