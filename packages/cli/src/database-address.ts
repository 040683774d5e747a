import { type Client, type ClientConfig, createClient } from '@batonsql/core'
import type { CommandContext } from './command-context.ts'
import { UsageError } from './usage-error.ts'

/** Default address of `baton dev`. */
const LOCAL_SERVER = 'http://127.0.0.1:8080'

interface AddressValues {
  readonly 'auth-token'?: string | undefined
  readonly timeout?: string | undefined
}

/**
 * Creates a client for the database that the command line names.
 * @param target a URL, or the name of a database on the local server
 * @param settings additional settings of the client
 * @throws UsageError for any other target
 */
export function openDatabase(
  target: string,
  values: AddressValues,
  { env }: CommandContext,
  settings: Partial<ClientConfig> = {},
): Client {
  // the token must not be sent to another database
  const databaseToken = target === env['DATABASE_URL'] ? env['DATABASE_TOKEN'] : undefined
  const authToken =
    values['auth-token'] ?? (databaseToken || env['BATON_AUTH_TOKEN'] || env['TURSO_AUTH_TOKEN'] || undefined)
  try {
    return createClient({
      url: toDatabaseUrl(target),
      requestTimeoutMs: readTimeout(values.timeout ?? '30'),
      ...(authToken !== undefined && { authToken }),
      ...settings,
    })
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    const message =
      target === env['DATABASE_URL'] ? error.message.replace(/^url /, 'DATABASE_URL ') : error.message
    throw new UsageError(`baton: ${message}`)
  }
}

/**
 * Returns the database of a command: its first argument, or DATABASE_URL if there are at most `maxOthers` arguments.
 * @param maxOthers how many arguments may follow the database
 * @throws UsageError if there is none
 */
export function readTarget(
  operands: readonly string[],
  maxOthers: 0 | 1,
  { env }: CommandContext,
): { readonly target: string; readonly remaining: readonly string[] } {
  const [firstOperand, ...remaining] = operands
  if (firstOperand !== undefined && operands.length > maxOthers) return { target: firstOperand, remaining }
  const url = env['DATABASE_URL']
  if (url) return { target: url, remaining: operands }
  if (firstOperand !== undefined && maxOthers === 1) {
    if (isTarget(firstOperand)) return { target: firstOperand, remaining }
    throw new UsageError(
      `baton: DATABASE_URL is not set, and ${describeNonTarget(firstOperand)} Pass the database first, or set DATABASE_URL.`,
    )
  }
  throw new UsageError('baton: missing database: pass its URL or NAME, or set DATABASE_URL')
}

/** Whether a string has the form of a URL. */
export const isUrl = (text: string): boolean => /^[a-z][a-z+]*:\S*$/i.test(text)
const isName = (text: string): boolean => /^[a-z0-9][a-z0-9-]*$/.test(text)

/** Whether a string has the form of a URL or of a database name. */
export const isTarget = (text: string): boolean => isUrl(text) || isName(text)

/** Returns the URL of a database that the command line names. @throws UsageError if it is neither a URL nor a name */
export function toDatabaseUrl(target: string): string {
  // the client reports quotes and spaces
  if (isUrl(target) || /^["'\s]|["'\s]$/.test(target)) return target
  if (isName(target)) return `${LOCAL_SERVER}/${target}/`
  throw new UsageError(`baton: ${describeNonTarget(target)}`)
}

const describeNonTarget = (text: string): string =>
  `${JSON.stringify(text)} is neither a URL nor the name of a database. For a file: \`baton dev --open FILE.db\` serves a copy of it.`

function readTimeout(seconds: string): number {
  const ms = Number(seconds) * 1_000
  if (seconds.trim() === '' || !(ms >= 0) || ms >= 2 ** 31)
    throw new UsageError(`baton: --timeout must be a number of seconds, not ${seconds}`)
  return ms === 0 ? Infinity : ms
}
