const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Escapes line breaks and control characters in text. */
export const escapeControls = (text: string): string =>
  text.replaceAll(
    // oxlint-disable-next-line no-control-regex -- matches them deliberately
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (character) => ESCAPES[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Like `escapeControls`, but keeps tabs and line breaks, which a terminal shows as they are. */
export const escapeLines = (text: string): string =>
  text
    .split(/(\r?\n|\t)/)
    .map((part, index) => (index % 2 === 0 ? escapeControls(part) : part))
    .join('')

/** Escapes the control characters of a string that is written to a terminal, which they could take over. */
export const textFor = ({ isTTY }: { readonly isTTY?: boolean | undefined }, text: string): string =>
  isTTY === true ? escapeLines(text) : text
