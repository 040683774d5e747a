import type { ClientConfig } from '@batonsql/core'
import type { DatabaseAddress, NewDatabaseOptions, Snapshot } from '@batonsql/local-server'
import { databaseUrl, type PlatformClient } from '@batonsql/platform'
import type { CommandContext, CommandInput } from './command-context.ts'
import { type CommandOutput, printOutput } from './command-output.ts'
import { control } from './control/control-client.ts'
import type { ListedDatabase } from './control/control-server.ts'
import type { DATABASE_OPTIONS } from './option-table.ts'
import { findApiUrl, organizationCommand } from './platform-commands.ts'
import { UsageError } from './usage-error.ts'

type Optional<T, Names extends keyof T> = { readonly [Name in Names]?: T[Name] | undefined }

/** A database to create. */
interface NewDatabase
  extends Optional<NewDatabaseOptions, 'fromFile' | 'fromDatabase' | 'fromSnapshot' | 'group'> {
  readonly name: string
}

/** A database, as commands print it. */
export interface HostedDatabase extends DatabaseAddress {
  readonly name: string
  /** Only in a platform API. */
  readonly group?: string
}

type HostedSnapshot = Pick<Snapshot, 'name' | 'bytes'> & { readonly createdAt: string }

/** Where databases are: a running server of this machine, or an organization of a platform API. */
interface DatabaseHost {
  list(): Promise<readonly HostedDatabase[]>
  create(database: NewDatabase): Promise<HostedDatabase>
  /**
   * Creates an empty database that is filled afterwards. Neither this nor `delete` of its result is interrupted, so that the database
   * is known to exist, and can be deleted.
   */
  createToFill(database: Pick<NewDatabase, 'name' | 'group'>): Promise<DatabaseToFill>
  delete(name: string): Promise<unknown>
  createSnapshot(database: string, name: string | undefined): Promise<HostedSnapshot>
  listSnapshots(database: string): Promise<readonly HostedSnapshot[]>
  restoreSnapshot(database: string, name: string): Promise<DatabaseAddress>
  deleteSnapshot(database: string, name: string): Promise<unknown>
}

/** A database that was created to be filled. */
export interface DatabaseToFill {
  readonly database: HostedDatabase
  /** Returns its address when it is ready, with a token if the server takes tokens. */
  readonly locate: () => Promise<ClientConfig>
  /** Deletes it, even after an interruption. */
  readonly delete: () => Promise<unknown>
}

/** What a command does with databases, and its peculiarities. */
interface DatabaseCommand<Options extends typeof DATABASE_OPTIONS> {
  readonly run: (host: DatabaseHost, input: CommandInput<Options>) => Promise<CommandOutput>
  readonly confirm?: (input: CommandInput<Options>) => Promise<void>
  readonly onlyOnServer?: readonly string[]
}

/** Creates a command that uses a platform API if one is given, and otherwise a running server of this machine. */
export function databaseCommand<Options extends typeof DATABASE_OPTIONS>({
  run,
  confirm = async () => {},
  onlyOnServer = [],
}: DatabaseCommand<Options>): (input: CommandInput<Options>) => Promise<void> {
  const runOnPlatform = organizationCommand<Options>(
    (platform, input) => run(platformHost(platform, input.context.signal), input),
    confirm,
  )
  return async (input) => {
    const { context } = input
    const values: Readonly<Record<string, unknown>> = input.values
    const find = (names: readonly string[]): string | undefined =>
      names.find((name) => values[name] !== undefined)
    const serverOption = find(['port', 'data', ...onlyOnServer])
    const platformOption = find(['api-url', 'token', 'organization'])
    if (serverOption !== undefined && platformOption !== undefined)
      throw new UsageError(
        `baton: --${serverOption} is for a server of this machine, --${platformOption} for a platform API`,
      )
    const usesPlatform = serverOption === undefined && findApiUrl(input.values, context) !== undefined
    if (usesPlatform || platformOption !== undefined) return await runOnPlatform(input)
    await confirm(input)
    await printOutput(await run(serverHost(input.values, context), input), values['json'] === true, context)
  }
}

function serverHost(values: CommandInput<typeof DATABASE_OPTIONS>['values'], context: CommandContext) {
  const uninterrupted = { ...context, signal: new AbortController().signal }
  const create = async (
    { name, ...options }: NewDatabase,
    signalContext = context,
  ): Promise<HostedDatabase> => {
    // JSON omits what is undefined
    const args: [string, NewDatabaseOptions] = [name, options as NewDatabaseOptions]
    const address = await control<DatabaseAddress>(values, { method: 'createDatabase', args }, signalContext)
    return { name, ...address }
  }
  return {
    list: () => control<readonly ListedDatabase[]>(values, { method: 'list' }, context),
    create,
    async createToFill(newDatabase) {
      const database = await create(newDatabase, uninterrupted)
      const { name, url, authToken } = database
      const remove = () => control(values, { method: 'deleteDatabase', args: [name] }, uninterrupted)
      return { database, locate: async () => ({ url, authToken }), delete: remove }
    },
    delete: (name) => control(values, { method: 'deleteDatabase', args: [name] }, context),
    createSnapshot: (database, name) =>
      control(
        values,
        { method: 'createSnapshot', args: name === undefined ? [database] : [database, name] },
        context,
      ),
    listSnapshots: (database) => control(values, { method: 'listSnapshots', args: [database] }, context),
    restoreSnapshot: (...args) => control(values, { method: 'restoreSnapshot', args }, context),
    deleteSnapshot: (...args) => control(values, { method: 'deleteSnapshot', args }, context),
  } satisfies DatabaseHost
}

function platformHost(platform: PlatformClient, signal: AbortSignal) {
  const { databases } = platform
  const create = async (
    { name, fromDatabase, fromSnapshot, group: requestedGroup }: NewDatabase,
    options: { readonly wait: boolean; readonly signal?: AbortSignal } = { wait: true, signal },
  ): Promise<HostedDatabase> => {
    const group =
      requestedGroup ??
      (fromDatabase === undefined ? 'default' : (await databases.get(fromDatabase, { signal })).group)
    const seed =
      fromDatabase === undefined
        ? undefined
        : ({
            type: 'database',
            name: fromDatabase,
            timestamp: await findTime(fromDatabase, fromSnapshot),
          } as const)
    const { hostname } = await databases.create({ name, group, seed }, options)
    return { name, group, url: databaseUrl(hostname) }
  }
  /** Returns the time of a snapshot, by which the platform API identifies it. @throws Error if it does not exist */
  const findTime = async (database: string, name: string | undefined): Promise<string | undefined> => {
    if (name === undefined) return undefined
    const snapshot = (await databases.listSnapshots(database, { signal })).find((each) => each.name === name)
    if (snapshot === undefined) throw new Error(`snapshot "${name}" of database "${database}" does not exist`)
    return snapshot.createdAt
  }
  const toHosted = ({ name, bytes, createdAt }: HostedSnapshot): HostedSnapshot => ({
    name,
    bytes,
    createdAt,
  })
  return {
    async list() {
      const list = await databases.list({ signal }).toArray()
      return list.map(({ name, group, hostname }) => ({ name, group, url: databaseUrl(hostname) }))
    },
    create,
    async createToFill(newDatabase) {
      const database = await create(newDatabase, { wait: false })
      const { name, url } = database
      const locate = async (): Promise<ClientConfig> => {
        await databases.waitUntilReady(name, { signal })
        return { url, authToken: platform.databaseToken({ database: name, expiration: '1h' }) }
      }
      return { database, locate, delete: () => databases.delete(name) }
    },
    delete: (name) => databases.delete(name, { signal }),
    createSnapshot: async (database, name) =>
      toHosted(await databases.createSnapshot(database, { name }, { signal })),
    listSnapshots: async (database) => (await databases.listSnapshots(database, { signal })).map(toHosted),
    async restoreSnapshot(database, name) {
      const { hostname } = await databases.restoreSnapshot(database, name, { signal })
      return { url: databaseUrl(hostname) }
    },
    deleteSnapshot: (database, name) => databases.deleteSnapshot(database, name, { signal }),
  } satisfies DatabaseHost
}
