/** Returns the words of a text: a list of many short values that is easier to survey than one value per line. */
export const words = (text: string): string[] => text.trim().split(/\s+/)

/** Returns the phrases of a text, which are separated by ` | ` and by line breaks. */
export const phrases = (text: string): string[] => text.trim().split(/ \| |\s*\n\s*/)
