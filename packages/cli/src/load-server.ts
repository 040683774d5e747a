const MISSING =
  'the local server is not installed: add it with `npm install --save-dev @batonsql/cli @batonsql/local-server`, or run `npx -p @batonsql/cli -p @batonsql/local-server baton`'

/** Imports an entry of the local server, an optional peer of this package. @throws Error that says how to install it */
export async function loadServer<Entry>(load: () => Promise<Entry>): Promise<Entry> {
  try {
    return await load()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    // not for a dependency of the server that is missing
    if (code !== 'ERR_MODULE_NOT_FOUND' || !/['"]@batonsql\/local-server/.test(message)) throw error
    throw new Error(MISSING, { cause: error })
  }
}
