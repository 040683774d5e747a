import type { parseArgs } from 'node:util'

/** One option of a command: what `parseArgs` needs, and what help, completion and documentation say about it. */
export interface OptionSpec {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  readonly multiple?: true
  /** What stands for the value in the help: `FILE`, `N`. */
  readonly value?: string
  /** The only values there are. */
  readonly choices?: readonly string[]
  readonly help: string
}

export type OptionTable = Readonly<Record<string, OptionSpec>>

/** Values of the options that were given. */
export type ValuesOf<Options extends OptionTable> = ReturnType<
  typeof parseArgs<{ options: Options }>
>['values']

const JSON_OPTION = { type: 'boolean', help: 'Print JSON, and nothing else' } as const

export const DEV_OPTIONS = {
  data: {
    type: 'string',
    value: 'DIR',
    help: 'Keep databases in this directory (default: in memory only, gone at the end)',
  },
  port: { type: 'string', value: 'N', help: 'Port (default 8080; 0 takes a free one)' },
  host: {
    type: 'string',
    value: 'ADDRESS',
    help: 'Address to listen on (default 127.0.0.1; any other lets other machines in)',
  },
  open: {
    type: 'string',
    multiple: true,
    value: 'FILE.db',
    help: 'Serve a copy of this SQLite file, as a database with the name of the file; the file is not changed. With --data the copy is made once, and kept. Can be repeated',
  },
  database: {
    type: 'string',
    multiple: true,
    value: 'NAME',
    help: 'Have a database of this name besides "default"; can be repeated',
  },
  auth: { type: 'boolean', help: 'Require tokens; they are printed on a terminal only' },
  'token-file': {
    type: 'string',
    value: 'FILE',
    help: 'Write all addresses and tokens to this file, as one line of JSON that only you can read, instead of printing the tokens',
  },
  log: {
    type: 'string',
    value: 'LEVEL',
    choices: ['none', 'errors', 'requests'],
    help: 'Write lines of JSON to stderr: errors (what failed or was refused) or requests (all; default none)',
  },
  'allow-origin': {
    type: 'string',
    multiple: true,
    value: 'ORIGIN',
    help: 'Let pages of this origin in besides those of this machine; can be repeated',
  },
  domain: {
    type: 'string',
    multiple: true,
    value: 'HOST=NAME',
    help: 'Let requests for this host name in, and take them for this database; can be repeated',
  },
  dialect: {
    type: 'string',
    value: 'NAME',
    choices: ['sqld', 'cloud'],
    help: 'sqld or cloud: whose answers to give where these differ (default: those of libsql-server, but never leave out a statement). Not with --backend sqld',
  },
  backend: {
    type: 'string',
    value: 'NAME',
    choices: ['embedded', 'sqld'],
    help: 'embedded (default) or sqld, the real libsql-server',
  },
  'sqld-url': { type: 'string', value: 'URL', help: 'A libsql-server that runs already' },
  'sqld-admin-url': {
    type: 'string',
    value: 'URL',
    help: 'Its admin API, whose key is taken from BATON_SQLD_ADMIN_KEY',
  },
  'platform-port': {
    type: 'string',
    value: 'N',
    help: 'Serve the platform API on this port, too. Databases need tokens then',
  },
  organization: {
    type: 'string',
    value: 'SLUG',
    help: 'What the organization of the platform API is called (default local)',
  },
  'platform-domain': {
    type: 'string',
    value: 'D',
    help: 'What follows <database>-<organization>. in the host names of databases',
  },
  'ready-delay': {
    type: 'string',
    value: 'MS',
    help: 'How long a database made through the platform API answers 404 at first (default 0)',
  },
  'no-window': {
    type: 'boolean',
    help: 'Do not serve the page /_baton, which shows requests as they come, to people on this machine; never served with --auth or --platform-port',
  },
  json: {
    type: 'boolean',
    help: 'Print one line of JSON when all is ready, and nothing else; with tokens on a terminal only',
  },
} as const satisfies OptionTable

/** How a database is reached. */
const ADDRESS_OPTIONS = {
  'auth-token': {
    type: 'string',
    value: 'TOKEN',
    help: 'Token of the database (default: BATON_AUTH_TOKEN, DATABASE_TOKEN for DATABASE_URL, then TURSO_AUTH_TOKEN, where others do not see it)',
  },
  timeout: {
    type: 'string',
    value: 'SECONDS',
    help: 'Longest time for one request (default 30; 0 sets no limit)',
  },
} as const satisfies OptionTable

export const SQL_OPTIONS = {
  file: { type: 'string', short: 'f', value: 'FILE', help: 'Run the statements of this file' },
  json: { type: 'boolean', help: 'Print each row as a line of JSON (JSON Lines)' },
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

export const DUMP_OPTIONS = {
  output: {
    type: 'string',
    short: 'o',
    value: 'FILE',
    help: 'Write to this file; it is replaced when the dump is complete (default: standard output)',
  },
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

export const RESTORE_OPTIONS = {
  resume: { type: 'boolean', help: 'Go on with a restore of the same file that stopped' },
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

/** How the platform API is reached. */
export const API_OPTIONS = {
  'api-url': { type: 'string', value: 'URL', help: 'Where the platform API is (default: BATON_API_URL)' },
  token: {
    type: 'string',
    value: 'TOKEN',
    help: 'API token (default: BATON_API_TOKEN, then TURSO_API_TOKEN)',
  },
  organization: {
    type: 'string',
    value: 'SLUG',
    help: 'Organization (default: the only one that the token is for)',
  },
  json: JSON_OPTION,
} as const satisfies OptionTable

export const CREATE_DATABASE_OPTIONS = {
  group: { type: 'string', value: 'NAME', help: 'Group of the new database (default "default")' },
  ...API_OPTIONS,
} as const satisfies OptionTable

export const CREATE_GROUP_OPTIONS = {
  location: {
    type: 'string',
    value: 'CODE',
    help: 'Where its databases are (default local, which the local server has)',
  },
  ...API_OPTIONS,
} as const satisfies OptionTable

export const DESTROY_OPTIONS = {
  yes: { type: 'boolean', short: 'y', help: 'Do not ask' },
  ...API_OPTIONS,
} as const satisfies OptionTable

export const TOKEN_OPTIONS = {
  'read-only': { type: 'boolean', help: 'The token may only read' },
  expiration: {
    type: 'string',
    value: 'TIME',
    help: 'How long it is valid: 2w1d30m, 1h or never (default never)',
  },
  ...API_OPTIONS,
} as const satisfies OptionTable

export const EXPORT_OPTIONS = {
  all: {
    type: 'string',
    value: 'DIR',
    help: 'Write every database of a running server to a new file DIR/ORGANIZATION/NAME.db',
  },
  data: { type: 'string', value: 'DIR', help: 'The data directory of a server that is stopped' },
  'api-url': API_OPTIONS['api-url'],
  token: API_OPTIONS.token,
  organization: {
    type: 'string',
    value: 'SLUG',
    help: 'Organization of a running server (default: every one that the token is for)',
  },
} as const satisfies OptionTable

export const USER_OPTIONS = {
  data: { type: 'string', value: 'DIR', help: 'The data directory' },
  email: {
    type: 'string',
    value: 'ADDRESS',
    help: 'Their address; who was invited by it is a member at once',
  },
} as const satisfies OptionTable

export const NO_OPTIONS = {} as const satisfies OptionTable
