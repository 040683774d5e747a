import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Gives a data directory a signing key, as versions before the registry kept it; the server takes it over. */
export async function plantKey(dataDirectory: string): Promise<KeyObject> {
  const { privateKey } = generateKeyPairSync('ed25519')
  await mkdir(dataDirectory, { recursive: true })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
  await writeFile(join(dataDirectory, 'signing-key.pem'), pem)
  return privateKey
}

/** The id of the database that a token of the server is for. */
export function databaseIdOf(token: string): string {
  const claims = Buffer.from(token.split('.')[1] as string, 'base64url').toString()
  return (JSON.parse(claims) as { id: string }).id
}
