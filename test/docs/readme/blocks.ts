import { readFileSync } from 'node:fs'

/** A fenced block of a Markdown file. */
export interface Block {
  /** The language after the fence: `ts`, `sh`, or none. */
  readonly language: string
  readonly code: string
}

/** Returns the fenced blocks of a Markdown file, in order. */
export const blocksOf = (file: string): Block[] =>
  [...readFileSync(file, 'utf8').matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(
    ([, language = '', code = '']) => ({ language, code }),
  )
