import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'

const PROGRAM_NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

export type BrowserStatus =
  | { readonly path: string; readonly unavailableReason: null }
  | { readonly path: null; readonly unavailableReason: string }

/** Finds the browser in which pages are tested: `CHROMIUM_PATH`, or one of the usual program names on `PATH`. */
export async function findBrowser(): Promise<BrowserStatus> {
  const configuredPath = process.env['CHROMIUM_PATH']
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  const candidates = configuredPath
    ? [configuredPath]
    : PROGRAM_NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))
  for (const path of candidates) {
    try {
      await access(path, constants.X_OK)
      return { path, unavailableReason: null }
    } catch {
      // try the next name
    }
  }
  const unavailableReason = configuredPath
    ? 'CHROMIUM_PATH is not an executable program'
    : 'no chromium on this machine (or in CHROMIUM_PATH)'
  return { path: null, unavailableReason }
}
