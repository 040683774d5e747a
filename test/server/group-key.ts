import { createPrivateKey, type KeyObject } from 'node:crypto'
import { DEFAULT_GROUP, openOperatorAccount, Registry } from '@batonsql/control-plane'

/** Initializes a data directory. @returns the key that signs the tokens of its default group */
export async function createGroupKey(dataDirectory: string): Promise<KeyObject> {
  const registry = await Registry.open(dataDirectory)
  const { organization } = openOperatorAccount(registry, 'local')
  const group = registry.findGroup(organization.id, DEFAULT_GROUP)
  registry.close()
  return createPrivateKey(group?.key.privatePem ?? '')
}

/** Returns the id of the database for which a token of the server is valid. */
export function databaseIdOf(token: string): string {
  const claims = Buffer.from(token.split('.')[1] as string, 'base64url').toString()
  return (JSON.parse(claims) as { id: string }).id
}
