import type { CommandInput } from './command-context.ts'
import { loadServer } from './load-server.ts'
import type { USER_OPTIONS } from './option-table.ts'
import { UsageError } from './usage-error.ts'

/** Creates a user of the platform API in the data directory of a stopped server, and prints the user's API token. */
export async function runUser({ values, operands }: CommandInput<typeof USER_OPTIONS>): Promise<void> {
  const [username] = operands as [string]
  const { data: directory, email } = values
  if (directory === undefined)
    throw new UsageError('baton user: missing data directory: baton user NAME --data DIR')
  const { createUserInDirectory } = await loadServer(() => import('@batonsql/local-server'))
  const user = email === undefined ? { username } : { username, email }
  const token = await createUserInDirectory(directory, user).catch((error: Error) => {
    const problem = /^createUser: (.*)/s.exec(error.message)?.[1]
    throw problem === undefined ? error : new UsageError(`baton user: ${problem}`)
  })
  console.log(token)
}
