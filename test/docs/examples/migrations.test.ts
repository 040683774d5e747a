import { useDatabase } from '@batonsql/local-server/testing'
import { expect, test } from 'vitest'
import { type ProgramResult, startExample, waitForExit } from './program.ts'

// examples/migrate-tenants is tested with a platform in test/platform/migrate-tenants.test.ts.

const database = useDatabase()
const runExample = async (file: string, ...args: string[]): Promise<ProgramResult> => {
  const { url, authToken = '' } = database.config
  return await waitForExit(
    startExample('migrate-drizzle', file, args, { DATABASE_URL: url, DATABASE_TOKEN: authToken }),
  )
}

test('migrate-drizzle lists pending migrations, applies them, and then has nothing to do', async () => {
  const runMigrate = async (...args: string[]): Promise<unknown> => {
    const { code, output } = await runExample('migrate.ts', ...args)
    return [code, output]
  }
  expect(await runMigrate('--dry-run')).toEqual([0, 'would apply 0000_guest, 0001_visit\n'])
  expect(await runMigrate()).toEqual([0, 'applied 0000_guest, 0001_visit\n'])
  expect(await runMigrate()).toEqual([0, 'nothing to do\n'])
})

test('the migrations of migrate-drizzle match its schema', async () => {
  const { code, output } = await runExample('node_modules/drizzle-kit/bin.cjs', 'generate')
  expect(code).toBe(0)
  expect(output).toContain('No schema changes')
})

test('migrate-tenants rejects an invalid concurrency', async () => {
  const args = ['--concurrency', 'all']
  const { code, errors } = await waitForExit(startExample('migrate-tenants', 'migrate-tenants.ts', args, {}))
  expect(code).toBe(1)
  expect(errors).toContain('--concurrency must be a positive integer, not all')
})
