/**
 * Imports an optional peer dependency: a package that this one needs only for some commands.
 * @param name the package, or the beginning of its name
 * @param advice message of the error if it is not installed
 * @throws Error with the advice
 */
export async function loadPeer<Entry>(
  load: () => Promise<Entry>,
  name: string,
  advice: string,
): Promise<Entry> {
  try {
    return await load()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    // a missing dependency of the package is a different problem
    const isMissing = [`'${name}`, `"${name}`].some((quoted) => message.includes(quoted))
    if (code !== 'ERR_MODULE_NOT_FOUND' || !isMissing) throw error
    throw new Error(advice, { cause: error })
  }
}
