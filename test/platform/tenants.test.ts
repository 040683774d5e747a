import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'

const EXAMPLE = fileURLToPath(new URL('../../examples/tenants/main.ts', import.meta.url))

test('the example creates, uses and deletes a database for each tenant', async () => {
  const { NODE_OPTIONS: _, ...env } = process.env
  const args = ['--conditions=@batonsql/source', '--disable-warning=ExperimentalWarning', EXAMPLE]
  args.push('--backend', inject('target'), '--tenants', '5')
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { env })
  expect(stderr).toBe('')
  for (const step of ['created and migrated', 'used', 'measured', 'deleted'])
    expect(stdout).toMatch(new RegExp(`5 of 5 ${step} in \\d+ s`))
  const [, read, written] = /5 notes, 250 visits, (\d+) rows read, (\d+) rows written/.exec(stdout) ?? []
  // at least the inserted rows, and those read for counting
  expect([Number(written) >= 255, Number(read) >= 255]).toEqual([true, true])
  expect(stdout).toContain('0 databases left')
})
