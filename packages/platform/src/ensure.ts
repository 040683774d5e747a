import { afterWrite, isAlreadyExists, isNotFound, PlatformError } from './platform-error.ts'

interface Parts<T> {
  /** Name of the resource for errors, such as `group "eu"`. */
  readonly label: string
  /** Its path, for errors. */
  readonly path: string
  readonly find: () => Promise<T>
  readonly create: () => Promise<T>
  /** Describes how an existing resource differs from the request. */
  readonly findDifferences: (existing: T) => readonly string[]
  readonly signal: AbortSignal | undefined
}

/**
 * Creates a resource unless it exists. Idempotent, even if a response was lost, because it looks up the resource first, and again if
 * the creation failed.
 * @returns `wasMissing`: whether it did not exist at first; `created`: whether this call created it, as far as is known
 */
export async function createUnlessExists<T>({
  label,
  path,
  find,
  create,
  findDifferences,
  signal,
}: Parts<T>): Promise<{
  readonly created: boolean
  readonly wasMissing: boolean
  readonly resource: T
}> {
  const lookUp = async (): Promise<T | null> => {
    let resource: T
    try {
      resource = await find()
    } catch (error) {
      if (isNotFound(error)) return null
      throw error
    }
    const differences = findDifferences(resource).join(', ')
    if (differences === '') return resource
    const message = `${label} differs from the request: ${differences}`
    throw new PlatformError({ code: 'MISMATCH', outcome: 'not_applied', method: 'GET', path, message })
  }
  const existing = await lookUp()
  if (existing !== null) return { created: false, wasMissing: false, resource: existing }
  try {
    return { created: true, wasMissing: true, resource: await create() }
  } catch (error) {
    const isTaken = isAlreadyExists(error)
    if (!isTaken && !(error instanceof PlatformError && error.outcome === 'unknown')) throw error
    if (signal?.aborted) throw error
    const resource = await (isTaken ? lookUp() : afterWrite(lookUp()))
    if (resource === null) throw error
    return { created: !isTaken, wasMissing: true, resource }
  }
}
