import { type Client, type InStatement, SqlError } from '@batonsql/core'
import { findFailingStatement, isFailedAssertion, openStream } from '@batonsql/core/adapter'
import { countViolations, type ForeignKeys, failIfMoreViolations } from './foreign-keys.ts'
import { type FailedStatement, MigrationError } from './migration-error.ts'
import { type JournalLayout, type JournalState, MigrationJournal } from './migration-journal.ts'
import { type Migration, type MigrationSource, parseMigration } from './migration-source.ts'
import { readTogether } from './read-together.ts'

export interface MigrateOptions {
  /** @default '__drizzle_migrations' */
  readonly migrationsTable?: string | undefined
  /**
   * What to do with a pending migration that is older than an applied one, for example after a merge of branches.
   * @default 'apply'
   */
  readonly outOfOrder?: 'apply' | 'error' | undefined
  /**
   * `false` applies one statement per request, for migrations that take longer than a server permits a transaction. Foreign keys are
   * off, as in a transaction, but not checked, and migrations must not run concurrently.
   * @default true
   */
  readonly transaction?: boolean | undefined
  /**
   * Called with a message that names the tables whose foreign keys cannot be checked, if migrations are pending.
   * @default console.warn
   */
  readonly onWarning?: ((message: string) => void) | undefined
  /** Time limit of one request in ms. @default Infinity */
  readonly timeoutMs?: number | undefined
}

/** Options of `pendingMigrations`. */
export type PendingOptions = Pick<MigrateOptions, 'migrationsTable' | 'outOfOrder' | 'timeoutMs'>

/** A migration that `migrate` would apply. */
export interface PlannedMigration {
  readonly tag: string
  /** Without `PRAGMA foreign_keys`: `migrate` turns foreign keys off itself. */
  readonly statements: readonly string[]
}

const MAX_ATTEMPTS = 20
const RETRY_DELAY_MS = 250

/** Applies the pending migrations. Used by `migrate()` for both Drizzle versions. */
export async function applyMigrations(
  client: Client,
  layout: JournalLayout,
  { sources, ...config }: MigrateOptions & { readonly sources: readonly MigrationSource[] },
): Promise<string[]> {
  const { timeoutMs = Infinity, transaction = true, onWarning = console.warn } = config
  const migrations = await Promise.all(sources.map(parseMigration))
  if (migrations.length === 0) return []
  const journal = openJournal(client, layout, config)
  for (let attempt = 1; ; attempt++) {
    const state = await readJournal(journal, migrations, config)
    const { pending } = state
    if (pending.length === 0) return []
    const uncheckable = state.foreignKeys?.uncheckable ?? []
    if (attempt === 1 && uncheckable.length > 0)
      onWarning(
        `foreign keys of ${uncheckable.join(', ')} are not checked: ${state.foreignKeys?.hasCheck ? 'each of these tables has a foreign key that references a column that is not unique' : 'the database cannot check them'}`,
      )
    const wereApplied = transaction
      ? await applyTogether(client, journal, { ...state, timeoutMs })
      : await applyOneByOne(client, journal, { ...state, timeoutMs })
    if (wereApplied) return pending.map(({ tag }) => tag)
    if (attempt === MAX_ATTEMPTS)
      throw new MigrationError(
        `gave up after ${MAX_ATTEMPTS} attempts: another migrator was applying migrations, or another writer held the write lock`,
        {},
      )
    // read the journal again before the retry; otherwise, migrators with nothing left to do would wait for the write lock
    await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS * (0.5 + Math.random())))
  }
}

/** Returns the pending migrations in order, without changing anything. Used for both Drizzle versions. */
export async function findPending(
  client: Client,
  layout: JournalLayout,
  { sources, ...config }: PendingOptions & { readonly sources: readonly MigrationSource[] },
): Promise<PlannedMigration[]> {
  const migrations = await Promise.all(sources.map(parseMigration))
  if (migrations.length === 0) return []
  const { pending } = await readJournal(openJournal(client, layout, config), migrations, config)
  return pending.map(({ tag, statements }) => ({ tag, statements }))
}

export function openJournal(
  client: Client,
  layout: JournalLayout,
  { migrationsTable: name = '__drizzle_migrations', timeoutMs = Infinity }: PendingOptions,
): MigrationJournal {
  return new MigrationJournal(client, layout, { name, timeoutMs })
}

async function readJournal(
  journal: MigrationJournal,
  migrations: readonly Migration[],
  { outOfOrder }: PendingOptions,
): Promise<JournalState> {
  const state = await journal.read(migrations)
  if (state.problem !== null) throw new MigrationError(state.problem, {})
  if (outOfOrder === 'error') rejectOutOfOrder(state.pending, state.lastWhen)
  return state
}

function rejectOutOfOrder(pending: readonly Migration[], lastWhen: number): void {
  const olderMigration = pending.find(({ when }) => when < lastWhen)
  if (olderMigration)
    throw new MigrationError(
      `migration ${olderMigration.tag} is older than an applied one; see \`outOfOrder\``,
      {
        migration: olderMigration.tag,
      },
    )
}

interface Plan extends JournalState {
  readonly timeoutMs: number
}

/** One step of the batch, and the meaning of its failure. */
interface Step {
  readonly statement: InStatement
  readonly failure: FailedStatement | 'raced' | 'foreign keys'
}

/** Applies the migrations as one batch. @returns false if another migrator applied one of them first, or the write lock is held */
async function applyTogether(client: Client, journal: MigrationJournal, plan: Plan): Promise<boolean> {
  const { prepareTable, pending, appliedCount, foreignKeys, timeoutMs } = plan
  const steps: Step[] = [
    ...prepareTable.map((statement) => ({ statement, failure: {} })),
    { statement: journal.failUnlessCount(appliedCount), failure: 'raced' },
    ...pending.flatMap((migration) => [
      ...migration.statements.map((sql, statementIndex) => ({
        statement: sql,
        failure: { migration: migration.tag, statementIndex, sql },
      })),
      { statement: journal.record(migration), failure: { migration: migration.tag } },
    ]),
  ]
  if (foreignKeys?.hasCheck)
    steps.push({ statement: failIfMoreViolations(foreignKeys), failure: 'foreign keys' })
  const statements = steps.map(({ statement }) => statement)
  try {
    if (foreignKeys?.hasCheck === false) await applyAndCount(client, { statements, foreignKeys, timeoutMs })
    else await client.batch(statements, { foreignKeys: 'off', timeoutMs })
    return true
  } catch (error) {
    if (error instanceof MigrationError) throw error
    const queries = statements.map((statement) => ({ sql: getSql(statement) }))
    const cause = await findFailingStatement(error, queries, client)
    if (!(cause instanceof SqlError)) {
      const [, position = -1] = STATEMENT.exec((Object(cause) as Error).message) ?? []
      throw migrationError({ ...(steps[Number(position)]?.failure as object), cause }, client, plan)
    }
    const failure = steps[cause.statementIndex ?? -1]?.failure
    if (failure === 'raced' || cause.code === 'SQLITE_BUSY') return false
    if (failure === 'foreign keys') throw foreignKeyError(cause, steps.length - 1)
    // counts the position from the beginning of the migration, not of the batch
    const { statementIndex = null } = failure ?? {}
    throw migrationError({ ...failure, cause: Object.assign(cause, { statementIndex }) }, client, plan)
  }
}

interface CountedBatch {
  readonly statements: readonly InStatement[]
  readonly foreignKeys: ForeignKeys
  readonly timeoutMs: number
}

/** For an engine without a foreign key check: applies migrations in a transaction, and commits it if they add no violations. */
async function applyAndCount(
  client: Client,
  { statements, foreignKeys: initial, timeoutMs }: CountedBatch,
): Promise<void> {
  const stream = openStream(client)
  try {
    await stream.execute('PRAGMA foreign_keys = off', undefined, { timeoutMs })
    stream.begin()
    await stream.batch(statements, { timeoutMs })
    const final = await countViolations((queries) => readTogether(stream, queries, timeoutMs))
    if (final.violations > initial.violations) throw new MigrationError(VIOLATION_MESSAGE, {})
    const uncheckable = final.uncheckable.filter(
      // tables with a quote in their names are reported by `onWarning`; the migrations table may be one of them
      (table) => !initial.uncheckable.includes(table) && !table.includes('"'),
    )
    if (uncheckable.length > 0)
      throw new MigrationError(
        `the migrations would leave a foreign key that cannot be checked, in ${uncheckable.join(', ')}; nothing was applied`,
        {},
      )
    await stream.commit({ timeoutMs })
  } finally {
    // rolls back after an error
    await stream.close()
  }
}

const VIOLATION_MESSAGE = 'the migrations would leave rows that violate a foreign key; nothing was applied'

const getSql = (statement: InStatement): string => (typeof statement === 'string' ? statement : statement.sql)

const foreignKeyError = (cause: SqlError, statementIndex: number): MigrationError =>
  new MigrationError(
    isFailedAssertion(cause, statementIndex)
      ? VIOLATION_MESSAGE
      : `the migrations would leave a foreign key that cannot be checked: ${cause.message}; nothing was applied`,
    { cause },
  )

/**
 * Applies the migrations with one request for each statement, which also disables foreign keys: the setting lasts as long as the
 * stream. @returns true
 */
async function applyOneByOne(client: Client, journal: MigrationJournal, plan: Plan): Promise<boolean> {
  const { prepareTable, pending, timeoutMs } = plan
  const failAs =
    (failure: FailedStatement) =>
    (cause: unknown): never => {
      throw migrationError({ ...failure, cause }, client, plan)
    }
  for (const statement of prepareTable)
    await client.execute(statement, undefined, { timeoutMs }).catch(failAs({}))
  for (const migration of pending) {
    const { tag } = migration
    for (const [statementIndex, sql] of migration.statements.entries()) {
      const stream = openStream(client)
      const applied = stream.chain(['PRAGMA foreign_keys = off', sql], { timeoutMs })
      // in the same tick, so that both share a request
      void stream.close()
      await applied.catch(failAs({ migration: tag, statementIndex, sql }))
    }
    const record = journal.record(migration)
    await client.execute(record, undefined, { timeoutMs }).catch(failAs({ migration: tag }))
  }
  return true
}

/** Matches the position in a batch, with which core begins the error of a statement that was not sent. */
const STATEMENT = /^statement (\d+), /

function migrationError(failure: FailedStatement, { url }: Client, state: JournalState): MigrationError {
  const { migration, statementIndex, cause } = failure
  const subject = migration ? `migration ${migration}` : 'the migrations'
  const position = typeof statementIndex === 'number' ? `, statement ${statementIndex + 1}` : ''
  // the user's `authToken` may have thrown anything
  const { message = String(cause), code } = Object(cause) as { message?: string; code?: string }
  const hint =
    code === 'TRANSACTION_TIMEOUT' ? ' (they took more than 5 s while another writer waited; split them)' : ''
  return new MigrationError(
    `${subject}${position} failed: ${message.replace(STATEMENT, '')}${hint}; ${describeDatabase(url, state, message)}`,
    failure,
  )
}

/** Describes the database, and how to proceed if it may be the wrong one. */
function describeDatabase(
  url: string,
  { appliedCount, sharesNoMigration }: JournalState,
  message: string,
): string {
  if (sharesNoMigration)
    return `none of the migrations that were applied to ${url} is among yours: is it the right database?`
  if (appliedCount === 0 && message.includes('already exists'))
    return `${url} has tables, but no migration was applied to it: is it the right database? If so, mark the migrations that its tables already have as applied, in the table of migrations or, with Drizzle 1.0, with \`init: true\``
  return `the database is ${url}`
}
