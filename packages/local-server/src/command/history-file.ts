import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

/** Lines that are kept. */
export const HISTORY_SIZE = 1_000

/** Where the prompt's history is: in the user's state directory, by https://specifications.freedesktop.org/basedir-spec. */
export function historyPath(env: Readonly<Record<string, string | undefined>>): string {
  const state = env['XDG_STATE_HOME'] || env['LOCALAPPDATA'] || join(homedir(), '.local', 'state')
  return join(state, 'baton', 'history')
}

/** Lines of earlier prompts, the newest first; none where there is no file. */
export function readHistory(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n').filter(Boolean).reverse()
  } catch {
    return []
  }
}

/** Keeps lines, the newest first, for this user alone. Without a place to write the prompt works all the same. */
export function writeHistory(path: string, lines: readonly string[]): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    writeFileSync(
      path,
      lines
        .slice(0, HISTORY_SIZE)
        .toReversed()
        .map((line) => `${line}\n`)
        .join(''),
      { mode: 0o600 },
    )
  } catch {
    // a home that cannot be written
  }
}
