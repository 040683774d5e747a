import { X509Certificate } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { createReplicationKeys } from './replication-keys.ts'

test('creates a certificate for the name of the primary, signed by its own authority, in files that other users cannot read', async () => {
  const folder = createTemporaryDirectory()
  const keys = await createReplicationKeys(join(folder, 'one'))
  const otherKeys = await createReplicationKeys(join(folder, 'other'))
  const [ca, cert] = [new X509Certificate(keys.ca), new X509Certificate(keys.cert)]
  expect([ca.ca, cert.ca]).toEqual([true, false])
  expect([cert.checkIssued(ca), cert.verify(ca.publicKey)]).toEqual([true, true])
  expect(cert.verify(new X509Certificate(otherKeys.ca).publicKey)).toBe(false)
  expect([cert.checkHost('sqld'), cert.checkHost('other')]).toEqual(['sqld', undefined])
  expect(cert.validFromDate < new Date() && new Date() < cert.validToDate).toBe(true)
  for (const name of ['ca', 'cert', 'key'] as const) {
    const file = join(keys.folder, `${name}.pem`)
    expect(await readFile(file, 'utf8')).toBe(keys[name])
    expect((await stat(file)).mode & 0o077).toBe(0)
  }
})
