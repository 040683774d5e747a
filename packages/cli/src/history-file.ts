import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

export const HISTORY_SIZE = 1_000

/** Returns the path of the prompt's history, in the user's state directory: https://specifications.freedesktop.org/basedir-spec. */
export function historyPath(env: Readonly<Record<string, string | undefined>>): string {
  const state = env['XDG_STATE_HOME'] || env['LOCALAPPDATA'] || join(homedir(), '.local', 'state')
  return join(state, 'baton', 'history')
}

/** Reads the lines of earlier prompts, newest first; none if the file cannot be read. */
export function readHistory(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n').filter(Boolean).reverse()
  } catch {
    return []
  }
}

/**
 * Saves lines, which are passed newest first, in a file that only this user can read. Errors are ignored, because the prompt also
 * works without a history.
 */
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
    // for example a read-only home directory
  }
}
