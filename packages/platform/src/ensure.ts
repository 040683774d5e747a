import { isAlreadyExists, isNotFound, PlatformError } from './platform-error.ts'

/** The parts of an `ensure` method. */
interface Parts<T> {
  /** Name of the resource for errors, such as `group "eu"`. */
  readonly what: string
  readonly path: string
  readonly find: () => Promise<T>
  readonly make: () => Promise<T>
  /** Describes how an existing resource differs from the request. */
  readonly differencesOf: (found: T) => readonly string[]
  readonly signal: AbortSignal | undefined
}

/**
 * Creates a resource unless it exists. Can be repeated, also after a lost response: it looks the resource up before and after
 * creating it.
 * @returns `isNew`: whether it did not exist at first
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
    const message = `${what} differs from the request: ${differences}`
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
