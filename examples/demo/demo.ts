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
const startedAt = performance.now()

const dataDirectory = `${options.data}-${backend}`
rmSync(dataDirectory, { recursive: true, force: true })
const server = await startLocalServer({ backend, dataDirectory })
console.log(`Database server (${server.version}) on ${server.url}, data in ${dataDirectory}\n`)

const client = createClient({ url: server.url })
const kysely = new Kysely<Database>({ dialect: new BatonDialect({ client }) })
const orm = drizzle({ client, schema })

let countedRequests = server.requestCount()
const takeRequestCount = (): string => {
  const count = server.requestCount() - countedRequests
  countedRequests += count
  return `${count} HTTP request${count === 1 ? '' : 's'}`
}

console.log(`Migrations: ${(await migrateToLatest(kysely)).join(', ')} (${takeRequestCount()})`)
const rows = await importTables(client, readTables())
console.log(`Imported ${rows} rows (${takeRequestCount()})\n`)

const questionsForDrizzle = drizzleQuestions(orm)
let differences = 0
for (const [index, question] of kyselyQuestions(kysely).entries()) {
  const kyselyRows = await question.run()
  const kyselyCost = takeRequestCount()
  const drizzleRows = await questionsForDrizzle[index]?.run()
  const drizzleCost = takeRequestCount()
  const isSame = isDeepStrictEqual(toPlain(kyselyRows), toPlain(drizzleRows))
  if (!isSame) differences += 1
  console.log(`${index + 1}. ${question.title}`)
  console.log(
    `   Kysely ${kyselyCost}, Drizzle ${drizzleCost}, ${isSame ? 'the same results' : 'DIFFERENT RESULTS'}:`,
  )
  print(kyselyRows)
  if (!isSame) print(drizzleRows ?? [])
}

console.log("Transactions: an athlete changes nation, and both nations' counts change with it")
const someAthlete = await kysely
  .selectFrom('athlete')
  .select(['id', 'name', 'nation'])
  .where('nation', '=', 'TUV')
  .executeTakeFirstOrThrow()
const { athletes } = await kysely
  .selectFrom('nation')
  .select('athletes')
  .where('code', '=', 'TUV')
  .executeTakeFirstOrThrow()
const transferOut: Transfer = { athleteId: someAthlete.id, from: 'TUV', to: 'FRA', count: 1 }
const transferBack: Transfer = { athleteId: someAthlete.id, from: 'FRA', to: 'TUV', count: 1 }
const impossibleTransfer: Transfer = { ...transferOut, count: athletes + 1 }
takeRequestCount()
for (const [name, transfer] of [
  ['Kysely', (move: Transfer) => transferWithKysely(kysely, move)],
  ['Drizzle', (move: Transfer) => transferWithDrizzle(orm, move)],
] as const) {
  await transfer(transferOut)
  console.log(
    `   ${name}: ${someAthlete.name} moved from TUV to FRA, committed (${takeRequestCount()}); ${await describeCounts()}`,
  )
  await transfer(transferBack)
  takeRequestCount()
  const outcome = await transfer(impossibleTransfer).then(
    () => 'NOT REJECTED',
    (error: Error) => ((error.cause ?? error) as Error).message,
  )
  console.log(
    `   ${name}: more athletes than there are: ${outcome}, rolled back (${takeRequestCount()}); ${await describeCounts()}`,
  )
}

await kysely.destroy()
await client.close()
await server.close()
console.log(
  `\nDone in ${((performance.now() - startedAt) / 1000).toFixed(1)} s. The data is still there: npm run baton -- dev --data ${dataDirectory}${backend === 'sqld' ? ' --backend sqld' : ''}`,
)
if (differences > 0) process.exitCode = 1

async function describeCounts(): Promise<string> {
  const { rows } = await client.execute<{ code: string; athletes: number; counted: number }>(
    "select code, athletes, (select count(*) from athlete where nation = code) as counted from nation where code in ('FRA', 'TUV') order by code",
  )
  takeRequestCount()
  return rows
    .map(
      ({ code, athletes, counted }) =>
        `${code} ${athletes}${athletes === counted ? '' : ` (BUT ${counted} COUNTED)`}`,
    )
    .join(', ')
}

function toPlain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown
}

function print(results: readonly object[]): void {
  const hasNestedValues = results.some((row) =>
    Object.values(row).some((value) => typeof value === 'object' && value !== null),
  )
  if (hasNestedValues) for (const row of results) console.log(`   ${JSON.stringify(row)}`)
  else console.table(results)
  console.log()
}
