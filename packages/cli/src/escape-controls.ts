const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Escapes line breaks and control characters in text. */
export const escapeControls = (text: string): string =>
  text.replaceAll(
    // oxlint-disable-next-line no-control-regex -- matches them deliberately
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (character) => ESCAPES[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Like `escapeControls`, but keeps line breaks. */
export const escapeLines = (text: string): string => text.split('\n').map(escapeControls).join('\n')
