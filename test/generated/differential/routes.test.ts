/*
 * The routes other than those for statements. After the same generated statements, dumps, change streams, jobs of shared schemas
 * and attached databases must be the same on the embedded server and on libsql-server. ROUTE_CASES sets the number of each,
 * TEST_SEED repeats a run.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hasSqld } from '../../support/has-sqld.ts'
import { SEED } from '../../support/random.ts'
import { phrases } from '../../support/words.ts'
import { isAccepted } from './accepted-differences.ts'
import { useBothServers } from './both-servers.ts'
import { runSequence, type Subject } from './run-sequence.ts'
import { type Exchange, SETUP_EXCHANGE } from './sequences.ts'
import type { NamedSubject, SubjectSource } from './servers.ts'
import { statement } from './statements.ts'

const CASE_COUNT = Number(process.env['ROUTE_CASES'] ?? 12)
const TIMEOUT_MS = 60_000 + CASE_COUNT * 4_000
// a short run repeats the same inputs: `npm test -- fuzz` searches for differences between the servers
const FIRST_SEED = CASE_COUNT <= 12 && process.env['TEST_SEED'] === undefined ? 20_261_122 : SEED
/** Number of cases from one seed. After a difference, the rest of the batch is skipped. */
const BATCH_SIZE = 50
const MAX_REPORTS = 5
/** Time for an open change stream to receive all committed changes. */
const SETTLE_MS = 150

const servers = useBothServers()

const program = fc.array(statement, { minLength: 1, maxLength: 6 })

/** Sends each statement in a separate request. */
function toExchanges(statements: readonly string[]): Exchange[] {
  return statements.map((sql) => ({
    route: '/v3/pipeline',
    continues: false,
    body: { requests: [{ type: 'execute', stmt: { sql } }, { type: 'close' }] },
  }))
}

const isComparable = (statements: readonly string[]): boolean => !toExchanges(statements).some(isAccepted)

async function runOnBoth<T>(run: (source: SubjectSource) => Promise<T>): Promise<readonly [T, T]> {
  return await Promise.all([run(servers.embedded), run(servers.real)])
}

async function getText(subject: Subject, route: string): Promise<{ status: number; text: string }> {
  const response = await fetch(subject.url + route, { headers: { ...subject.headers, connection: 'close' } })
  // libsql-server truncates some dumps
  const text = await response.text().catch(() => 'truncated')
  return { status: response.status, text }
}

/** Returns a dump with numbers written as libsql-server writes them: 1.0 as 1, 1e20 with all its digits, infinities as `inf`. */
function normalizeDump(dump: string): string {
  return dump
    .split('\n')
    .map((line) =>
      line.startsWith('INSERT INTO')
        ? line
            .replaceAll(/(?<=[(,])(-?)9e999(?=[,)])/g, '$1inf')
            .replaceAll(/(?<=[(,])-?\d+(?:\.\d+)?(?:e-?\d+)?(?=[,)])/g, (number) => String(Number(number)))
        : line,
    )
    .join('\n')
}

/** Data that libsql-server's dump cannot represent: see docs/limits.md. */
const NOT_DUMPABLE = /CAST\(X'|truncated|\0|writable_schema|"[^"\n]*""/

async function compareDumps(statements: readonly string[]): Promise<unknown> {
  if (!isComparable(statements)) return null
  const [ours, theirs] = await runOnBoth(async (source) => {
    await using subject = await source.create()
    await runSequence(subject, [SETUP_EXCHANGE, ...toExchanges(statements)])
    return (await getText(subject, '/dump')).text
  })
  if ([ours, theirs].some((text) => NOT_DUMPABLE.test(text))) return null
  if (normalizeDump(ours) !== normalizeDump(theirs)) return { ours, theirs }
  // each server loads the embedded server's dump, and produces the same dump again
  const [loaded, loadedBySqld] = await runOnBoth(async (source) => {
    await using subject = await source.create()
    const body = { requests: [{ type: 'sequence', sql: ours }, { type: 'close' }] }
    const responses = await runSequence(subject, [{ route: '/v3/pipeline', continues: false, body }])
    return { responses, dump: (await getText(subject, '/dump')).text }
  })
  if (loaded.dump === ours && normalizeDump(loadedBySqld.dump) === normalizeDump(ours)) return null
  return { dumped: ours, loaded, loadedByLibsqlServer: loadedBySqld }
}

async function compareEvents(statements: readonly string[]): Promise<unknown> {
  if (!isComparable(statements)) return null
  const [ours, theirs] = await runOnBoth(async (source) => {
    await using subject = await source.create()
    await runSequence(subject, [SETUP_EXCHANGE])
    const abort = new AbortController()
    const streams = ['t', 'u'].map((table) => readEvents(subject, table, abort.signal))
    await sleep(SETTLE_MS)
    await runSequence(subject, toExchanges(statements))
    await sleep(SETTLE_MS)
    abort.abort()
    return await Promise.all(streams)
  })
  return isDeepStrictEqual(ours, theirs) ? null : { ours, theirs }
}

async function readEvents(subject: Subject, table: string, signal: AbortSignal): Promise<string> {
  let text = ''
  try {
    const response = await fetch(`${subject.url}/beta/listen?table=${table}`, {
      headers: subject.headers,
      signal,
    })
    for await (const part of response.body as unknown as AsyncIterable<Uint8Array>)
      text += Buffer.from(part).toString()
  } catch (error) {
    if (!signal.aborted) throw error
  }
  return text
}

const schemaChange = fc.constantFrom(
  ...phrases(`
    CREATE TABLE s (a INTEGER PRIMARY KEY, b) | CREATE TABLE IF NOT EXISTS s (a INTEGER PRIMARY KEY, b)
    ALTER TABLE s ADD COLUMN c | ALTER TABLE s RENAME COLUMN b TO d | CREATE INDEX si ON s (b)
    CREATE UNIQUE INDEX su ON s (b) | INSERT INTO s (b) VALUES (1) | INSERT INTO s (b) VALUES ('x'), (2)
    UPDATE s SET b = 3 | DROP TABLE s | DROP INDEX si | CREATE VIEW sv AS SELECT a FROM s
    SELECT count(*) FROM sqlite_schema | SELECT nothing
  `),
)

async function compareJobs(statements: readonly string[]): Promise<unknown> {
  const [ours, theirs] = await runOnBoth(async (source) => {
    await using parent = await source.create({ isSchema: true })
    await using child = await source.create({ schema: parent.name })
    const responses = await runSequence(parent, toExchanges(statements))
    const jobs = await getText(parent, '/v1/jobs')
    return {
      responses: withoutCounts(responses),
      jobs: getStates(jobs.text),
      tables: await getTables(parent, child),
    }
  })
  return isDeepStrictEqual(ours, theirs) ? null : { ours, theirs }
}

/**
 * Returns the states of jobs without their numbers, which libsql-server assigns across databases. A failed job may be about to
 * change its state.
 */
function getStates(text: string): unknown {
  const { migrations = [] } = JSON.parse(text) as { migrations?: { status: string }[] }
  return migrations.map(({ status }) => status.replace('DryRunFailure', 'RunFailure'))
}

async function getTables(...subjects: readonly Subject[]): Promise<unknown> {
  const sql = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%' ORDER BY name"
  return withoutCounts(await Promise.all(subjects.map((subject) => runSequence(subject, toExchanges([sql])))))
}

/**
 * Returns responses without row counters, because each server stores the state of a migration, or a copy of a database, in its
 * own way.
 */
function withoutCounts(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, member: unknown) => (key.startsWith('rows_') ? undefined : member)),
  )
}

// not INSERT INTO t SELECT * FROM o.t, which crashes libsql-server
const attachedStatement = fc.constantFrom(
  ...phrases(`
    SELECT * FROM o.t | SELECT count(*) FROM o.u | SELECT t.a FROM t JOIN o.t AS x ON x.a = t.a
    INSERT INTO o.t DEFAULT VALUES | DELETE FROM o.t | CREATE TABLE o.x (a) | DROP TABLE o.t
    SELECT name FROM o.sqlite_schema ORDER BY 1 | SELECT * FROM p.t | DETACH o | DETACH main
    PRAGMA o.table_info(t) | BEGIN | COMMIT
  `),
)

async function compareAttached(statements: readonly string[]): Promise<unknown> {
  const [ours, theirs] = await runOnBoth(async (source) => {
    await using attachable: NamedSubject = await source.create({ allowAttach: true })
    await using notAttachable = await source.create()
    await using subject = await source.create()
    await runSequence(attachable, [SETUP_EXCHANGE])
    const requests = [
      `ATTACH "${attachable.name}" AS o`,
      ...statements.slice(0, 2),
      `ATTACH "${notAttachable.name}" AS p`,
      ...statements.slice(2),
    ]
    const [first, ...rest] = await runSequence(subject, [
      SETUP_EXCHANGE,
      ...requests.map((sql) => ({
        route: '/v3/pipeline' as const,
        continues: true,
        body: { requests: [{ type: 'execute', stmt: { sql } }] },
      })),
    ])
    const names: readonly (readonly [string, string])[] = [
      [attachable.name, 'attachable'],
      [notAttachable.name, 'not attachable'],
      [subject.name, 'subject'],
    ]
    const text = names.reduce(
      (result, [name, label]) => result.replaceAll(name, label),
      JSON.stringify(withoutCounts([first, ...rest])),
    )
    return text.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'an id')
  })
  return ours === theirs ? null : { ours, theirs }
}

/** Runs many cases in small batches, so that one difference does not hide the next. */
async function findDifferences(
  cases: fc.Arbitrary<readonly string[]>,
  compare: (statements: readonly string[]) => Promise<unknown>,
): Promise<readonly string[]> {
  const reports: string[] = []
  const property = fc.asyncProperty(cases, async (statements) => {
    const difference = await compare(statements)
    if (difference !== null) throw new Error(JSON.stringify(difference, null, 1))
  })
  for (let done = 0; done < CASE_COUNT && reports.length < MAX_REPORTS; done += BATCH_SIZE) {
    const numRuns = Math.min(BATCH_SIZE, CASE_COUNT - done)
    const result = await fc.check(property, { seed: FIRST_SEED + done / BATCH_SIZE, numRuns })
    if (result.failed) reports.push(`${fc.defaultReportMessage(result)}\n${String(result.errorInstance)}`)
  }
  return reports
}

const shortListOf = (arbitrary: fc.Arbitrary<string>): fc.Arbitrary<readonly string[]> =>
  fc.array(arbitrary, { minLength: 1, maxLength: 5 })

test.skipIf(!hasSqld).each([
  ['dumps, and databases loaded from them', program, compareDumps],
  ['events', program, compareEvents],
  ['jobs and their changes', shortListOf(schemaChange), compareJobs],
  ['attached databases', shortListOf(attachedStatement), compareAttached],
] as const)(
  `%s are the same (${CASE_COUNT} cases, TEST_SEED=${FIRST_SEED})`,
  { timeout: TIMEOUT_MS },
  async (_, cases, compare) => {
    expect(await findDifferences(cases, compare)).toEqual([])
  },
)
