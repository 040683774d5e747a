// An end-to-end demo on one machine: a database server, a migration, 20,000 rows, both ORMs, transactions.
import { rmSync } from 'node:fs'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { startLocalServer } from '@batonsql/local-server'
import { Kysely } from 'kysely'
import { readTables } from './data.ts'
import { drizzleQuestions } from './drizzle-questions.ts'
import * as schema from './drizzle-schema.ts'
import { importTables } from './import-data.ts'
import type { Database } from './kysely-database.ts'
import { kyselyQuestions } from './kysely-questions.ts'
import { migrateToLatest } from './migrations.ts'
import { type Transfer, transferWithDrizzle, transferWithKysely } from './transfers.ts'

const { values: options } = parseArgs({
  options: {
    backend: { type: 'string', default: 'embedded' },
    data: { type: 'string', default: '.baton/demo' },
  },
})
const backend = options.backend
if (backend !== 'embedded' && backend !== 'sqld')
  throw new TypeError(`--backend must be embedded or sqld, not ${backend}`)
const started = performance.now()

const dataDirectory = `${options.data}-${backend}`
rmSync(dataDirectory, { recursive: true, force: true })
const server = await startLocalServer({ backend, dataDirectory })
console.log(`Database server (${server.version}) on ${server.url}, data in ${dataDirectory}\n`)

const client = createClient({ url: server.url })
const kysely = new Kysely<Database>({ dialect: new BatonDialect({ client }) })
const orm = drizzle({ client, schema })

let seen = server.requestCount()
const requests = (): string => {
  const count = server.requestCount() - seen
  seen += count
  return `${count} HTTP request${count === 1 ? '' : 's'}`
}

console.log(`Migrations: ${(await migrateToLatest(kysely)).join(', ')} (${requests()})`)
const rows = await importTables(client, readTables())
console.log(`Imported ${rows} rows (${requests()})\n`)

const otherQuestions = drizzleQuestions(orm)
let differences = 0
for (const [at, question] of kyselyQuestions(kysely).entries()) {
  const fromKysely = await question.run()
  const kyselyCost = requests()
  const fromDrizzle = await otherQuestions[at]?.run()
  const drizzleCost = requests()
  const same = isDeepStrictEqual(plain(fromKysely), plain(fromDrizzle))
  if (!same) differences += 1
  console.log(`${at + 1}. ${question.title}`)
  console.log(
    `   Kysely ${kyselyCost}, Drizzle ${drizzleCost}, ${same ? 'the same results' : 'DIFFERENT RESULTS'}:`,
  )
  print(fromKysely)
  if (!same) print(fromDrizzle ?? [])
}

console.log("Transactions: an athlete changes nation, and both nations' counts change with it")
const someone = await kysely
  .selectFrom('athlete')
  .select(['id', 'name', 'nation'])
  .where('nation', '=', 'TUV')
  .executeTakeFirstOrThrow()
const { athletes } = await kysely
  .selectFrom('nation')
  .select('athletes')
  .where('code', '=', 'TUV')
  .executeTakeFirstOrThrow()
const there: Transfer = { athleteId: someone.id, from: 'TUV', to: 'FRA', count: 1 }
const back: Transfer = { athleteId: someone.id, from: 'FRA', to: 'TUV', count: 1 }
const impossible: Transfer = { ...there, count: athletes + 1 }
requests()
for (const [name, transfer] of [
  ['Kysely', (of: Transfer) => transferWithKysely(kysely, of)],
  ['Drizzle', (of: Transfer) => transferWithDrizzle(orm, of)],
] as const) {
  await transfer(there)
  console.log(
    `   ${name}: ${someone.name} moved from TUV to FRA, committed (${requests()}); ${await books()}`,
  )
  await transfer(back)
  requests()
  const rejected = await transfer(impossible).then(
    () => 'NOT REFUSED',
    (error: Error) => ((error.cause ?? error) as Error).message,
  )
  console.log(
    `   ${name}: more athletes than there are: ${rejected}, rolled back (${requests()}); ${await books()}`,
  )
}

await kysely.destroy()
await client.close()
await server.close()
console.log(
  `\nDone in ${((performance.now() - started) / 1000).toFixed(1)} s. The data is still there: npm run baton -- dev --data ${dataDirectory}${backend === 'sqld' ? ' --backend sqld' : ''}`,
)
if (differences > 0) process.exitCode = 1

async function books(): Promise<string> {
  const { rows } = await client.execute<{ code: string; athletes: number; counted: number }>(
    "select code, athletes, (select count(*) from athlete where nation = code) as counted from nation where code in ('FRA', 'TUV') order by code",
  )
  requests()
  return rows
    .map(
      ({ code, athletes, counted }) =>
        `${code} ${athletes}${athletes === counted ? '' : ` (BUT ${counted} COUNTED)`}`,
    )
    .join(', ')
}

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown
}

function print(results: readonly object[]): void {
  const nested = results.some((row) =>
    Object.values(row).some((value) => typeof value === 'object' && value !== null),
  )
  if (nested) for (const row of results) console.log(`   ${JSON.stringify(row)}`)
  else console.table(results)
  console.log()
}
