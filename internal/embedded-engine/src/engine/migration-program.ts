import { type Condition, type EngineValue, ResultError } from '@batonsql/server-common/hrana'
import { getKeyword, type Statement } from '@batonsql/server-common/sql'

/** A statement of a migration with its arguments. */
interface MigrationStep {
  readonly sql: string
  readonly args: readonly EngineValue[]
  readonly namedArgs: readonly (readonly [name: string, value: EngineValue])[]
  readonly condition: Condition | null
}

/** A migration of a schema database and its children. */
export interface MigrationProgram {
  readonly steps: readonly MigrationStep[]
}

/** A migration that a client has sent. */
export interface ClientMigration extends MigrationProgram {
  readonly steps: readonly ClientStep[]
  /** Whether the client receives the rows. */
  readonly wantRows: boolean
}

interface ClientStep extends MigrationStep {
  /** The statement of the client, even if a query replaces it. */
  readonly statement: Statement
}

/** Kinds of statements in the encoded text. */
type EncodedKind = 'DDL' | 'Write' | 'Read' | 'TxnBegin' | 'TxnEnd' | 'Other'

const KINDS: Readonly<Partial<Record<Statement['kind'], EncodedKind>>> = {
  schema: 'DDL',
  insert: 'Write',
  change: 'Write',
  begin: 'TxnBegin',
  end: 'TxnEnd',
  query: 'Read',
  explain: 'Read',
}

/** A statement of a program that will become a migration. */
export interface ProgramStep extends Pick<MigrationStep, 'args' | 'namedArgs' | 'condition'> {
  readonly statement: Statement
}

// the message is that of libsql-server, which allows SAVEPOINT
const INVALID_MESSAGE =
  'migration is invalid: it contains transaction items (BEGIN, COMMIT, SAVEPOINT...) which are not allowed. The migration is already run within a transaction'

/**
 * Converts a program to a migration, which runs in a transaction. A BEGIN at its start, and each COMMIT and ROLLBACK at its end, are
 * replaced by queries: clients send a ROLLBACK for the case that the COMMIT fails. As in libsql-server, a program that only ends with
 * ROLLBACK is applied, and so is one whose BEGIN has no end. Other statements that begin or end transactions are rejected.
 * @throws MigrationError
 */
export function toMigration(steps: readonly ProgramStep[], wantRows: boolean): ClientMigration {
  const begin = steps.findIndex(({ statement }) => statement.kind !== 'pragma')
  const hasBegin = steps[begin]?.statement.kind === 'begin'
  // pragmas may follow the end of the transaction
  const last = steps.findLastIndex(({ statement }) => statement.kind !== 'pragma')
  const lastInside = steps.slice(0, last + 1).findLastIndex(({ statement }) => !endsTransaction(statement))
  return {
    wantRows,
    steps: steps.map(({ statement, args, namedArgs, condition }, index) => {
      const step = { args, namedArgs, condition, sql: statement.source, statement }
      if (hasBegin && index === begin) return { ...step, sql: "SELECT 'neutralized txn begin'" }
      const isEnd = endsTransaction(statement)
      if (isEnd && hasBegin && index > lastInside)
        return { ...step, sql: "SELECT 'neutralized txn component'" }
      if (isEnd || statement.kind === 'begin') throw new MigrationError(INVALID_MESSAGE)
      return step
    }),
  }
}

function getKind({ kind, access }: Statement): EncodedKind {
  if (kind === 'pragma') return access === 'read' ? 'Read' : 'Write'
  return KINDS[kind] ?? 'Other'
}

/** Whether a statement ends the transaction; SAVEPOINT, RELEASE and ROLLBACK TO are allowed in a migration. */
const endsTransaction = ({ verb, tokens, sql }: Statement): boolean =>
  ['COMMIT', 'END'].includes(verb) ||
  (verb === 'ROLLBACK' && !tokens.some((token) => getKeyword(sql, token) === 'TO'))

/** A migration that cannot be executed, or has failed and was rolled back. */
export class MigrationError extends Error {
  /** Creates the error of a failed step, numbered from 0. */
  static fromStep(index: number, { message }: ResultError, sql: string): MigrationError {
    const plain = message.replace(/^(?:SQLite error|SQL input error): /, '')
    const position = / \(at offset (\d+)\)$/.exec(plain)
    const reason =
      position === null ? plain : `${plain.slice(0, position.index)} in ${sql} at offset ${position[1]}`
    return new MigrationError(`An error occured executing the migration at step ${index + 1}: ${reason}`)
  }

  /** Converts the error to the error of a batch or of a single statement. */
  toResult(isBatch: boolean): ResultError {
    return isBatch
      ? new ResultError('SCHEMA_MIGRATION_ERROR', `Schema migration error: ${this.message}`)
      : new ResultError('SQLITE_UNKNOWN', `SQLite error: ${this.message}`)
  }
}

/**
 * Encodes a migration as libsql-server does, because clients can read the text: children store it in their table of tasks, which is
 * part of their dumps. So it has fields that are not decoded. The text is the same for statements without arguments and conditions, except
 * savepoints; in a script, the statements of libsql-server also end with a semicolon.
 */
export function encodeMigration({ steps, wantRows }: ClientMigration): string {
  return JSON.stringify({
    steps: steps.map(({ sql, statement, args, namedArgs, condition }) => ({
      cond: condition,
      query: {
        stmt: {
          stmt: sql,
          kind: getKind(statement),
          is_iud: statement.kind === 'insert' || statement.kind === 'change',
          is_insert: statement.kind === 'insert',
          attach_info: null,
        },
        params:
          namedArgs.length > 0
            ? { Named: namedArgs.map(([name, value]) => [name, encodeValue(value)]) }
            : { Positional: args.map(encodeValue) },
        want_rows: wantRows,
      },
    })),
  })
}

/** A REAL is text, because JSON.stringify would lose the sign of -0. */
type EncodedValue = 'Null' | { readonly Integer?: string; Real?: string; Text?: string; Blob?: string }

/** The fields of an encoded step that are decoded. */
interface EncodedStep {
  readonly cond: Condition | null
  readonly query: {
    readonly stmt: { readonly stmt: string }
    readonly params: {
      readonly Positional?: readonly EncodedValue[]
      readonly Named?: readonly (readonly [string, EncodedValue])[]
    }
  }
}

/** Decodes a migration. @param text must be that of `encodeMigration` */
export function decodeMigration(text: string): MigrationProgram {
  const { steps } = JSON.parse(text) as { steps: readonly EncodedStep[] }
  return {
    steps: steps.map(({ cond, query: { stmt, params } }) => ({
      sql: stmt.stmt,
      args: (params.Positional ?? []).map(decodeValue),
      namedArgs: (params.Named ?? []).map(([name, value]) => [name, decodeValue(value)] as const),
      condition: cond,
    })),
  }
}

function encodeValue(value: EngineValue): EncodedValue {
  if (value === null) return 'Null'
  if (typeof value === 'bigint') return { Integer: String(value) }
  if (typeof value === 'number') return { Real: Object.is(value, -0) ? '-0' : String(value) }
  if (typeof value === 'string') return { Text: value }
  return { Blob: Buffer.from(value).toString('base64') }
}

function decodeValue(value: EncodedValue): EngineValue {
  if (value === 'Null') return null
  const { Integer, Real, Text, Blob } = value
  if (Integer !== undefined) return BigInt(Integer)
  if (Blob !== undefined) return new Uint8Array(Buffer.from(Blob, 'base64'))
  return Real === undefined ? (Text ?? null) : Number(Real)
}
