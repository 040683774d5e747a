import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify, stripVTControlCharacters } from 'node:util'
import { createClient } from '@batonsql/core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { openTestServer, type TestDatabase } from '../../support/test-server.ts'

// examples/kysely-tools: kysely-ctl and kysely-codegen with our dialect.

const example = fileURLToPath(new URL('../../../examples/kysely-tools/', import.meta.url))
const kyselyCtl = join(example, 'node_modules/kysely-ctl/dist/bin.mjs')
const outFolder = createTemporaryDirectory(afterAll)
let database: TestDatabase

beforeAll(async () => {
  database = await (await openTestServer()).createDatabase()
})

async function run(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd: example,
    env: {
      ...process.env,
      // tools that load the dialect themselves also use its sources
      NODE_OPTIONS: '--conditions=@batonsql/source',
      // kysely-ctl prints nothing when it detects that it runs in a test
      CONSOLA_LEVEL: '3',
      DATABASE_URL: database.url,
      DATABASE_TOKEN: database.authToken,
    },
    timeout: 180_000,
  })
  return stripVTControlCharacters(stdout)
}
const listTables = async (): Promise<unknown[]> => {
  await using db = createClient(database.config)
  const { rows } = await db.execute(
    "select name from sqlite_schema where type = 'table' and name in ('person', 'pet') order by name",
    [],
    { rowMode: 'array' },
  )
  return rows.flat()
}

test('kysely-ctl migrates, lists, and rolls back', async () => {
  expect(await run(kyselyCtl, 'migrate', 'list')).toContain('[ ] 20260902_pet')
  expect(await run(kyselyCtl, 'migrate', 'latest')).toContain('Ran 2 migrations')
  expect(await listTables()).toEqual(['person', 'pet'])
  expect(await run(kyselyCtl, 'migrate', 'list')).toMatch(/\[`?✓`?\] 20260902_pet/)
  expect(await run(kyselyCtl, 'migrate', 'latest')).not.toContain('Ran')
  await run(kyselyCtl, 'migrate', 'down')
  expect(await listTables()).toEqual(['person'])
})

test('kysely-codegen writes the types of the existing tables', async () => {
  await run(kyselyCtl, 'migrate', 'latest')
  const file = join(outFolder, 'database.d.ts')
  await run('codegen.ts', file)
  const types = readFileSync(file, 'utf8')
  expect(types).toContain(`export interface Person {
  born_at: number | null;
  created_at: Generated<string>;
  id: Generated<number>;
  name: string;
  portrait: Uint8Array | null;
}`)
  expect(types).toContain(`export interface DB {
  person: Person;
  pet: Pet;
}`)
})
