import { expect, test } from 'vitest'
import { checkPlatformOptions, type PlatformOptions } from './platform-options.ts'

test.each<PlatformOptions>([
  { port: 0 },
  { port: 65_535 },
  { domain: 'localhost' },
  { domain: 'db.example:8443' },
  { domain: 'a-b.c1.example' },
  { organization: 'a' },
  { organization: `a--b${'c'.repeat(35)}` },
])('accepts %j', (options) => {
  expect(() => checkPlatformOptions(options)).not.toThrow()
})

test.each<readonly [PlatformOptions, string]>([
  [{ port: 65_536 }, 'platform: port must be a port from 0 to 65535, not 65536'],
  [{ port: Number.POSITIVE_INFINITY }, 'platform: port'],
  [{ port: 0.5 }, 'platform: port'],
  [{ domain: 'a:99999' }, 'platform: domain'],
  [{ domain: 'a..b' }, 'platform: domain'],
  [{ domain: '.a' }, 'platform: domain'],
  [{ domain: 'a-.b' }, 'platform: domain'],
  [{ domain: 'a.-b' }, 'platform: domain'],
  [{ domain: '' }, 'platform: domain'],
  [{ organization: 'a-' }, 'platform: organization'],
  [{ organization: '-a' }, 'platform: organization'],
  [{ organization: 'a'.repeat(40) }, 'platform: organization'],
])('rejects %j', (options, message) => {
  expect(() => checkPlatformOptions(options)).toThrow(message)
})
