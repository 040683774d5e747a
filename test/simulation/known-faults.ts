import type { History } from './history.ts'

/** A fault of the client that the simulation has found and that is not mended yet. */
interface KnownFault {
  readonly what: string
  readonly mistake: RegExp
  /** Whether it can show in a history. */
  readonly canShow: (history: string, server: History['server']) => boolean
}

/** Faults that are left out of the count until they are mended: the shorter this list, the better. */
const KNOWN_FAULTS: readonly KnownFault[] = [
  {
    what: 'a call that shares a request, and is late while that waits for its token, does not say that it was not applied',
    mistake: /its outcome is unknown, but nothing of it has left/,
    canShow: (history) => history.includes('"coalesce"') && history.includes('"token"'),
  },
  {
    what: 'an answer to /v3 with results that are none proves that the server has /v3, so that /v2 is never tried',
    mistake: /^afterwards .* HTTP 404/,
    canShow: (history, { isOld }) => isOld === true && history.includes('"foreign answer"'),
  },
]

/** Mistakes that are not known yet. */
export function unknownMistakes(history: History, mistakes: readonly string[]): readonly string[] {
  if (mistakes.length === 0) return mistakes
  const text = JSON.stringify(history)
  const known = KNOWN_FAULTS.filter(({ canShow }) => canShow(text, history.server))
  return mistakes.filter((each) => !known.some(({ mistake }) => mistake.test(each)))
}
