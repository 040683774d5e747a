import type { parseArgs } from 'node:util'

/** An option of a command, for `parseArgs`, help, completion and documentation. */
export interface OptionSpec {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  readonly multiple?: true
  /** Placeholder of the value in the help: `FILE`, `N`. */
  readonly value?: string
  /** The allowed values. */
  readonly choices?: readonly string[]
  readonly help: string
}

export type OptionTable = Readonly<Record<string, OptionSpec>>

/** Values of the options in a table. */
export type ValuesOf<Options extends OptionTable> = ReturnType<
  typeof parseArgs<{ options: Options }>
>['values']

/** Options that choose a running server of this machine. */
const SERVER_OPTIONS = {
  port: { type: 'string', value: 'N', help: 'Port of the `baton dev` to use (default 8080)' },
  data: {
    type: 'string',
    value: 'DIR',
    help: 'Data directory of the `baton dev` to use, instead of its port',
  },
} as const satisfies OptionTable

const JSON_OPTION = { type: 'boolean', help: 'Print only JSON' } as const

/** Options of `baton dev` and `baton serve`. */
const SHARED_SERVE_OPTIONS = {
  port: { type: 'string', value: 'N', help: 'Port (default 8080; 0 selects a free port)' },
  host: {
    type: 'string',
    value: 'ADDRESS',
    help: 'Address to listen on (default 127.0.0.1; other addresses allow access from other machines)',
  },
  database: {
    type: 'string',
    multiple: true,
    value: 'NAME',
    help: 'Create a database with this name, in addition to "default". Can be repeated',
  },
  'token-file': {
    type: 'string',
    value: 'FILE',
    help: 'Write all addresses and tokens to this file, as one line of JSON readable only by you, instead of printing the tokens',
  },
  'allow-origin': {
    type: 'string',
    multiple: true,
    value: 'ORIGIN',
    help: 'Allow web pages from this origin, in addition to those on this machine. Can be repeated',
  },
  domain: {
    type: 'string',
    multiple: true,
    value: 'HOST=NAME',
    help: 'Serve this database at this host name. Can be repeated',
  },
  'sqld-url': { type: 'string', value: 'URL', help: 'URL of a running libsql-server' },
  'sqld-admin-url': {
    type: 'string',
    value: 'URL',
    help: 'URL of its admin API; the key is read from BATON_SQLD_ADMIN_KEY',
  },
  replica: {
    type: 'string',
    multiple: true,
    value: 'LOCATION',
    help: 'Start a replica of the databases in this location, such as fra. With libsql-server. Can be repeated',
  },
  'platform-port': {
    type: 'string',
    value: 'N',
    help: 'Also serve the platform API on this port; databases then require tokens',
  },
  organization: {
    type: 'string',
    value: 'SLUG',
    help: 'Name of the organization of the platform API (default local)',
  },
  'platform-domain': {
    type: 'string',
    value: 'D',
    help: 'Suffix of the host names of databases, after <database>-<organization>.',
  },
  json: {
    type: 'boolean',
    help: 'Print only one line of JSON when the server is ready; it includes tokens only on a terminal',
  },
} as const satisfies OptionTable

export const DEV_OPTIONS = {
  data: {
    type: 'string',
    value: 'DIR',
    help: 'Keep databases in this directory (default: a temporary directory)',
  },
  ...SHARED_SERVE_OPTIONS,
  open: {
    type: 'string',
    multiple: true,
    value: 'FILE.db',
    help: 'Serve a copy of this SQLite file as a database with the name of the file; the file is not changed. With --data, the copy is created once and kept. Can be repeated',
  },
  auth: { type: 'boolean', help: 'Require auth tokens (printed only on a terminal)' },
  log: {
    type: 'string',
    value: 'LEVEL',
    choices: ['none', 'errors', 'requests'],
    help: 'Log to stderr as lines of JSON: errors (failed and rejected requests), requests (all requests) or none (default)',
  },
  dialect: {
    type: 'string',
    value: 'NAME',
    choices: ['sqld', 'cloud'],
    help: 'Imitate sqld or cloud where they differ (default: sqld, but a script with an incomplete statement is rejected). Not with --backend sqld',
  },
  backend: {
    type: 'string',
    value: 'NAME',
    choices: ['embedded', 'sqld'],
    help: 'embedded (default) or sqld, which runs libsql-server',
  },
  'replica-lag': {
    type: 'string',
    multiple: true,
    value: '[LOCATION=]MS',
    help: 'Delay replication to all replicas, or to those in this location, by this many milliseconds. With --backend sqld. Can be repeated',
  },
  'ready-delay': {
    type: 'string',
    value: 'MS',
    help: 'How long a database created with the platform API initially responds with 404 (default 0)',
  },
  'no-inspector': {
    type: 'boolean',
    help: 'Do not serve the request inspector at /_baton, which shows live requests on this machine; never served with --auth or --platform-port',
  },
} as const satisfies OptionTable

/** `baton serve` is `baton dev` with libsql-server, tokens, and without the inspector. */
export const SERVE_OPTIONS = {
  data: { type: 'string', value: 'DIR', help: 'Keep databases in this directory (required)' },
  ...SHARED_SERVE_OPTIONS,
  log: {
    type: 'string',
    value: 'LEVEL',
    choices: ['none', 'errors', 'requests'],
    help: 'Log to stderr as lines of JSON: errors (default: failed and rejected requests), requests (all requests) or none',
  },
} as const satisfies OptionTable

/** Options for the address of a database. */
const ADDRESS_OPTIONS = {
  'auth-token': {
    type: 'string',
    value: 'TOKEN',
    help: 'Token for the database (default: BATON_AUTH_TOKEN, DATABASE_TOKEN for DATABASE_URL, then TURSO_AUTH_TOKEN; other users can see command lines)',
  },
  timeout: {
    type: 'string',
    value: 'SECONDS',
    help: 'Timeout for each request (default 30; 0 for none)',
  },
} as const satisfies OptionTable

export const SQL_OPTIONS = {
  file: { type: 'string', short: 'f', value: 'FILE', help: 'Run the statements in this file' },
  json: { type: 'boolean', help: 'Print each row as a line of JSON (JSON Lines)' },
  csv: {
    type: 'boolean',
    help: 'Print results as CSV with a header row: NULL is an empty cell, an empty text is ""',
  },
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

export const MCP_OPTIONS = {
  write: { type: 'boolean', help: 'Also offer a tool that changes the database' },
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

export const DUMP_OPTIONS = {
  output: {
    type: 'string',
    short: 'o',
    value: 'FILE',
    help: 'Write to this file; an existing file is replaced when the dump is complete (default: standard output)',
  },
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

/** Options of the commands that run another one on a database. */
const PROGRAM_OPTIONS = {
  'allow-loss': {
    type: 'string',
    multiple: true,
    value: 'TABLE[.COLUMN]',
    help: 'Accept that data of this table or column is lost; if there is a table of this name, it means the table. Can be repeated',
  },
  'url-variable': {
    type: 'string',
    value: 'NAME',
    help: 'Environment variable that receives the URL (default DATABASE_URL)',
  },
  'token-variable': {
    type: 'string',
    value: 'NAME',
    help: 'Environment variable that receives the token (default DATABASE_TOKEN)',
  },
} as const satisfies OptionTable

export const REHEARSE_OPTIONS = {
  'schema-only': { type: 'boolean', help: 'Copy only the schema, without rows' },
  json: { type: 'boolean', help: "Print the report as JSON; the command's output goes to stderr" },
  markdown: {
    type: 'boolean',
    help: "Print the report as Markdown, for a pull request; the command's output goes to stderr",
  },
  keep: { type: 'boolean', help: 'Keep the copy open afterwards, until Ctrl-C' },
  ...PROGRAM_OPTIONS,
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

export const RESTORE_OPTIONS = {
  resume: { type: 'boolean', help: 'Resume an interrupted restore of the same file' },
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

export const IMPORT_OPTIONS = {
  table: {
    type: 'string',
    value: 'TABLE',
    help: 'Table, created if it does not exist (default: the name of the file)',
  },
  type: {
    type: 'string',
    multiple: true,
    value: 'COLUMN=TYPE',
    help: 'Type of a column of a new table, such as zip=TEXT (default: found from its values). Can be repeated',
  },
  columns: {
    type: 'string',
    value: 'LIST',
    help: 'Names of the columns, separated by commas, for a file without a header row',
  },
  delimiter: {
    type: 'string',
    value: 'CHARACTER',
    help: 'Character between cells: ; or tab, for example (default ,)',
  },
  'skip-bad-rows': {
    type: 'boolean',
    help: 'Report rows that cannot be stored, and import the others (default: import nothing)',
  },
  resume: { type: 'boolean', help: 'Resume an interrupted import of the same file' },
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

/** Options for the address of a platform API. */
const PLATFORM_OPTIONS = {
  'api-url': { type: 'string', value: 'URL', help: 'URL of the platform API (default: BATON_API_URL)' },
  token: {
    type: 'string',
    value: 'TOKEN',
    help: 'API token (default: BATON_API_TOKEN, then TURSO_API_TOKEN)',
  },
} as const satisfies OptionTable

/** Options for the platform API. */
export const ACCOUNT_OPTIONS = { ...PLATFORM_OPTIONS, json: JSON_OPTION } as const satisfies OptionTable

/** Options for an organization of the platform API. */
export const API_OPTIONS = {
  ...PLATFORM_OPTIONS,
  organization: {
    type: 'string',
    value: 'SLUG',
    help: 'Organization (default: the only one that the token can access)',
  },
  json: JSON_OPTION,
} as const satisfies OptionTable

export const MIGRATE_OPTIONS = {
  concurrency: { type: 'string', value: 'N', help: 'Number of databases at a time (default 4)' },
  rehearse: {
    type: 'boolean',
    help: 'First rehearse the command on a copy of each database, and change nothing if one of them would lose data',
  },
  report: {
    type: 'string',
    value: 'FILE',
    help: 'Write the result of each database to this new file, as lines of JSON',
  },
  resume: { type: 'boolean', help: 'Continue --report: skip the databases that have succeeded in it' },
  ...PROGRAM_OPTIONS,
  ...API_OPTIONS,
} as const satisfies OptionTable

/** Options of the commands that work with a server on this machine, or with a platform API. */
export const DATABASE_OPTIONS = { ...SERVER_OPTIONS, ...API_OPTIONS } as const satisfies OptionTable

export const CREATE_DATABASE_OPTIONS = {
  'from-file': {
    type: 'string',
    value: 'FILE.db',
    help: 'Start with a copy of this SQLite file. Not with a platform API',
  },
  'from-dump': {
    type: 'string',
    value: 'FILE',
    help: 'Apply this dump to it; - reads it from standard input. If that fails, the database is deleted again',
  },
  'from-database': {
    type: 'string',
    value: 'NAME',
    help: 'Start with a copy of this database of the same server, which stays in use',
  },
  group: {
    type: 'string',
    value: 'NAME',
    help: 'Group of the new database (default: that of --from-database, or "default")',
  },
  ...DATABASE_OPTIONS,
} as const satisfies OptionTable

export const FORK_OPTIONS = {
  snapshot: { type: 'string', value: 'NAME', help: 'Copy this snapshot instead of the current state' },
  group: { type: 'string', value: 'NAME', help: 'Group of the copy (default: that of the database)' },
  ...DATABASE_OPTIONS,
} as const satisfies OptionTable

export const CREATE_GROUP_OPTIONS = {
  location: {
    type: 'string',
    value: 'CODE',
    help: 'Location of its databases (default local, for a local server)',
  },
  ...API_OPTIONS,
} as const satisfies OptionTable

/** An option whose absence keeps the current value. */
export const SWITCH = { type: 'string', value: 'on|off', choices: ['on', 'off'] } as const
const DELETE_PROTECTION = { ...SWITCH, help: 'Whether deletion is rejected' } as const

export const CONFIGURE_DATABASE_OPTIONS = {
  'size-limit': {
    type: 'string',
    value: 'SIZE',
    help: 'Maximum size: 256mb, 1.5gb, or bytes; 0 for none',
  },
  'allow-attach': { ...SWITCH, help: 'Whether other databases of its group can attach it' },
  'block-reads': { ...SWITCH, help: 'Whether reads are rejected' },
  'block-writes': { ...SWITCH, help: 'Whether writes are rejected' },
  'delete-protection': DELETE_PROTECTION,
  'allowed-ips': {
    type: 'string',
    value: 'LIST',
    help: 'The only addresses that can access it, separated by commas: 192.0.2.7,198.51.100.0/24; "" for all',
  },
  ...API_OPTIONS,
} as const satisfies OptionTable

export const CONFIGURE_GROUP_OPTIONS = {
  'delete-protection': DELETE_PROTECTION,
  ...API_OPTIONS,
} as const satisfies OptionTable

const YES_OPTION = { type: 'boolean', short: 'y', help: 'Do not ask for confirmation' } as const

export const DESTROY_OPTIONS = { yes: YES_OPTION, ...API_OPTIONS } as const satisfies OptionTable

export const DESTROY_DATABASE_OPTIONS = {
  yes: YES_OPTION,
  ...DATABASE_OPTIONS,
} as const satisfies OptionTable

export const API_TOKEN_OPTIONS = {
  group: { type: 'string', value: 'NAME', help: 'Limit the token to this group; needs --scope' },
  scope: {
    type: 'string',
    multiple: true,
    value: 'SCOPE',
    choices: [
      'read-only',
      'full-access',
      'read',
      'db:create',
      'db:delete',
      'db:configure',
      'db:mint-token',
      'db:rotate-creds',
      'group:configure',
      'group:mint-token',
      'group:rotate-creds',
      'metrics',
    ],
    help: 'Permission in the group: full-access, read-only (the same as read), db:create, db:delete, db:configure, db:mint-token, db:rotate-creds, group:configure, group:mint-token, group:rotate-creds. Without a group, only metrics: a token for /metrics of the local server. Can be repeated',
  },
  ...API_OPTIONS,
  organization: {
    type: 'string',
    value: 'SLUG',
    help: 'Limit the token to this organization (default: all of yours; with --group, the only one that --token can access)',
  },
} as const satisfies OptionTable

export const DATABASE_TOKEN_OPTIONS = {
  'read-only': { type: 'boolean', help: 'Create a read-only token' },
  expiration: {
    type: 'string',
    value: 'TIME',
    help: 'Lifetime: 2w1d30m, 1h or never (default never)',
  },
  ...API_OPTIONS,
} as const satisfies OptionTable

export const EXPORT_OPTIONS = {
  all: {
    type: 'string',
    value: 'DIR',
    help: 'Export all databases of a platform API to new files DIR/ORGANIZATION/NAME.db',
  },
  data: {
    type: 'string',
    value: 'DIR',
    help: 'Data directory of a server on this machine, whether or not it is running',
  },
  ...ADDRESS_OPTIONS,
  ...PLATFORM_OPTIONS,
  organization: {
    type: 'string',
    value: 'SLUG',
    help: 'Organization of the platform API (default: all that the token can access)',
  },
} as const satisfies OptionTable

export const USER_OPTIONS = {
  data: { type: 'string', value: 'DIR', help: 'Data directory' },
  email: {
    type: 'string',
    value: 'ADDRESS',
    help: 'Email address; invitations to it are accepted automatically',
  },
} as const satisfies OptionTable

export const NO_OPTIONS = {} as const satisfies OptionTable
