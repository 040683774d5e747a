import { isAlreadyExists, isNotFound, PlatformError } from './platform-error.ts'

/** What `ensure` is made of. */
interface Parts<T> {
  /** Such as `group "eu"`. */
  readonly what: string
  readonly path: string
  readonly find: () => Promise<T>
  readonly make: () => Promise<T>
  /** How one that is there is not as asked for. */
  readonly differencesOf: (found: T) => readonly string[]
  readonly signal: AbortSignal | undefined
}

/**
 * Makes what is not there. May be repeated, also after an answer that was lost: it looks before and after it makes anything.
 * @returns `isNew`: whether it was not there at the first look
 */
export async function ensure<T>({ what, path, find, make, differencesOf, signal }: Parts<T>): Promise<{
  readonly created: boolean
  readonly isNew: boolean
  readonly found: T
}> {
  const look = async (): Promise<T | null> => {
    let found: T
    try {
      found = await find()
    } catch (error) {
      if (isNotFound(error)) return null
      throw error
    }
    const differences = differencesOf(found).join(', ')
    if (differences === '') return found
    const message = `${what} is not as asked for: ${differences}`
    throw new PlatformError({ code: 'MISMATCH', outcome: 'not_applied', method: 'GET', path, message })
  }
  const there = await look()
  if (there !== null) return { created: false, isNew: false, found: there }
  try {
    return { created: true, isNew: true, found: await make() }
  } catch (error) {
    const isTaken = isAlreadyExists(error)
    if (!isTaken && !(error instanceof PlatformError && error.outcome === 'unknown')) throw error
    const found = signal?.aborted ? null : await look()
    if (found === null) throw error
    return { created: !isTaken, isNew: true, found }
  }
}
