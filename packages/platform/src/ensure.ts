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
 * Creates a resource unless it exists. Can be repeated, even after a lost response: it looks up the resource before and after
 * creating it.
 * @returns `isNew`: whether it did not exist at first
 */
export async function ensure<T>({ what, path, find, make, differencesOf, signal }: Parts<T>): Promise<{
  readonly created: boolean
  readonly isNew: boolean
  readonly found: T
}> {
  const lookUp = async (): Promise<T | null> => {
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
  const existing = await lookUp()
  if (existing !== null) return { created: false, isNew: false, found: existing }
  try {
    return { created: true, isNew: true, found: await make() }
  } catch (error) {
    const isTaken = isAlreadyExists(error)
    if (!isTaken && !(error instanceof PlatformError && error.outcome === 'unknown')) throw error
    const found = signal?.aborted ? null : await lookUp()
    if (found === null) throw error
    return { created: !isTaken, isNew: true, found }
  }
}
