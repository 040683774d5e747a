import type { parseArgs } from 'node:util'

/** An option of a command, for `parseArgs`, help, completion and documentation. */
export interface OptionSpec {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  readonly multiple?: true
  /** Placeholder of the value in the help: `FILE`, `N`. */
  readonly value?: string
  readonly choices?: readonly string[]
  /** Whether an empty value has a meaning. In a script, it is usually a variable that is not set. @default false */
  readonly mayBeEmpty?: true
  readonly help: string
}

export type OptionTable = Readonly<Record<string, OptionSpec>>

export type ValuesOf<Options extends OptionTable> = ReturnType<
  typeof parseArgs<{ options: Options }>
>['values']

const flag = (help: string) => ({ type: 'boolean', help }) as const

const text = (value: string, help: string) => ({ type: 'string', value, help }) as const

const texts = (value: string, help: string) =>
  ({ ...text(value, `${help}. Can be repeated`), multiple: true }) as const

const choice = <const Choices extends readonly string[]>(value: string, choices: Choices, help: string) =>
  ({ ...text(value, help), choices }) as const

/** Options that choose a running server of this machine. */
const SERVER_OPTIONS = {
  port: text('N', 'Port of the `baton dev` to use (default 8080)'),
  data: text('DIR', 'Data directory of the `baton dev` to use, instead of its port'),
} as const satisfies OptionTable

const JSON_OPTION = flag('Print only JSON')

/** Options of `baton dev` and `baton serve`. */
const SHARED_SERVE_OPTIONS = {
  port: text('N', 'Port (default 8080; 0 selects a free port)'),
  host: text(
    'ADDRESS',
    'Address to listen on (default 127.0.0.1; other addresses allow access from other machines)',
  ),
  database: texts('NAME', 'Create a database with this name, in addition to "default"'),
  'token-file': text(
    'FILE',
    'Write all addresses and tokens to this file, as one line of JSON readable only by you, instead of printing the tokens',
  ),
  'allow-origin': texts('ORIGIN', 'Allow web pages from this origin, in addition to those on this machine'),
  domain: texts('HOST=NAME', 'Serve this database at this host name'),
  'sqld-url': text('URL', 'URL of a running libsql-server'),
  'sqld-admin-url': text('URL', 'URL of its admin API; the key is read from BATON_SQLD_ADMIN_KEY'),
  replica: texts(
    'LOCATION',
    'Start a replica of the databases in this location, such as fra. With libsql-server',
  ),
  'platform-port': text('N', 'Also serve the platform API on this port; databases then require tokens'),
  organization: text('SLUG', 'Name of the organization of the platform API (default local)'),
  'platform-domain': text('D', 'Suffix of the host names of databases, after <database>-<organization>.'),
  log: choice(
    'LEVEL',
    ['none', 'errors', 'requests'],
    'Log to stderr as lines of JSON: errors (failed and rejected requests; the default of `baton serve`), requests (all requests) or none (the default of `baton dev`)',
  ),
  json: flag('Print only one line of JSON when the server is ready; it includes tokens only on a terminal'),
} as const satisfies OptionTable

export const DEV_OPTIONS = {
  data: text('DIR', 'Keep databases in this directory (default: a temporary directory)'),
  ...SHARED_SERVE_OPTIONS,
  open: texts(
    'FILE.db',
    'Serve a copy of this SQLite file as a database with the name of the file; the file is not changed. With --data, the copy is created once and kept',
  ),
  auth: flag('Require auth tokens (printed only on a terminal)'),
  dialect: choice(
    'NAME',
    ['sqld', 'cloud'],
    'Imitate sqld or cloud where they differ (default: sqld, but a script with an incomplete statement is rejected). Not with --backend sqld',
  ),
  backend: choice('NAME', ['embedded', 'sqld'], 'embedded (default) or sqld, which runs libsql-server'),
  'replica-lag': texts(
    '[LOCATION=]MS',
    'Delay replication to all replicas, or to those in this location, by this many milliseconds. With --backend sqld',
  ),
  'ready-delay': text(
    'MS',
    'How long a database created with the platform API initially responds with 404 (default 0)',
  ),
  'no-inspector': flag(
    'Do not serve the request inspector at /_baton, which shows live requests on this machine; never served with --auth or --platform-port',
  ),
} as const satisfies OptionTable

/** `baton serve` is `baton dev` with libsql-server, tokens, and without the inspector. */
export const SERVE_OPTIONS = {
  data: text('DIR', 'Keep databases in this directory (required)'),
  ...SHARED_SERVE_OPTIONS,
} as const satisfies OptionTable

const ADDRESS_OPTIONS = {
  'auth-token': {
    ...text(
      'TOKEN',
      'Token for the database (default: DATABASE_TOKEN for DATABASE_URL, BATON_AUTH_TOKEN, then TURSO_AUTH_TOKEN; other users can see command lines)',
    ),
    mayBeEmpty: true,
  },
  timeout: text('SECONDS', 'Timeout for each request (default 30; 0 for none)'),
} as const satisfies OptionTable

export const SQL_OPTIONS = {
  file: { ...text('FILE', 'Run the statements in this file'), short: 'f' },
  json: flag('Print each row as a line of JSON (JSON Lines)'),
  csv: flag('Print results as CSV with a header row: NULL is an empty cell, an empty text is ""'),
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

export const MCP_OPTIONS = {
  write: flag('Also offer a tool that changes the database'),
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

export const DUMP_OPTIONS = {
  output: {
    ...text(
      'FILE',
      'Write to this file; an existing file is replaced when the dump is complete (default: standard output)',
    ),
    short: 'o',
  },
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

/** Options of the commands that run another one on a database. */
const PROGRAM_OPTIONS = {
  'allow-loss': texts(
    'TABLE[.COLUMN]',
    'Accept that data of this table or column is lost; if there is a table of this name, it means the table',
  ),
  'url-variable': text('NAME', 'Environment variable that receives the URL (default DATABASE_URL)'),
  'token-variable': text('NAME', 'Environment variable that receives the token (default DATABASE_TOKEN)'),
} as const satisfies OptionTable

export const REHEARSE_OPTIONS = {
  'schema-only': flag('Copy only the schema, without rows'),
  json: flag("Print the report as JSON; the command's output goes to stderr"),
  markdown: flag("Print the report as Markdown, for a pull request; the command's output goes to stderr"),
  keep: flag('Keep the copy open afterwards, until Ctrl-C'),
  ...PROGRAM_OPTIONS,
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

export const RESTORE_OPTIONS = {
  resume: flag('Resume an interrupted restore of the same file'),
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

export const IMPORT_OPTIONS = {
  table: text('TABLE', 'Table, created if it does not exist (default: the name of the file)'),
  type: texts(
    'COLUMN=TYPE',
    'Type of a column of a new table, such as zip=TEXT (default: found from its values)',
  ),
  columns: text('LIST', 'Names of the columns, separated by commas, for a file without a header row'),
  delimiter: text('CHARACTER', 'Character between cells: ; or tab, for example (default ,)'),
  'skip-bad-rows': flag(
    'Report rows that cannot be stored, and import the others (default: import nothing; if only the database rejects a row, keep earlier transactions)',
  ),
  resume: flag('Resume an interrupted import of the same file'),
  ...ADDRESS_OPTIONS,
} as const satisfies OptionTable

/** Options for the address of a platform API. */
const PLATFORM_OPTIONS = {
  'api-url': text('URL', 'URL of the platform API (default: BATON_API_URL)'),
  token: text('TOKEN', 'API token (default: BATON_API_TOKEN, then TURSO_API_TOKEN)'),
} as const satisfies OptionTable

/** Options for the platform API. */
export const ACCOUNT_OPTIONS = { ...PLATFORM_OPTIONS, json: JSON_OPTION } as const satisfies OptionTable

/** Options for an organization of the platform API. */
export const API_OPTIONS = {
  ...PLATFORM_OPTIONS,
  organization: text('SLUG', 'Organization (default: the only one that the token can access)'),
  json: JSON_OPTION,
} as const satisfies OptionTable

export const MIGRATE_OPTIONS = {
  concurrency: text('N', 'Number of databases at a time (default 4)'),
  rehearse: flag(
    'First rehearse the command on a copy of each database, and change nothing if one of them would lose data',
  ),
  report: text('FILE', 'Write the result of each database to this new file, as lines of JSON'),
  resume: flag('Continue --report: skip the databases that have succeeded in it'),
  ...PROGRAM_OPTIONS,
  ...API_OPTIONS,
} as const satisfies OptionTable

/** Options of the commands that work with a server on this machine, or with a platform API. */
export const DATABASE_OPTIONS = { ...SERVER_OPTIONS, ...API_OPTIONS } as const satisfies OptionTable

export const CREATE_DATABASE_OPTIONS = {
  'from-file': text('FILE.db', 'Start with a copy of this SQLite file. Not with a platform API'),
  'from-dump': text(
    'FILE',
    'Apply this dump to it; - reads it from standard input. If that fails, the database is deleted',
  ),
  'from-database': text('NAME', 'Start with a copy of this database of the same server, which stays in use'),
  group: text('NAME', 'Group of the new database (default: that of --from-database, or "default")'),
  ...DATABASE_OPTIONS,
} as const satisfies OptionTable

export const FORK_OPTIONS = {
  snapshot: text('NAME', 'Copy this snapshot instead of the current state'),
  group: text('NAME', 'Group of the copy (default: that of the database)'),
  ...DATABASE_OPTIONS,
} as const satisfies OptionTable

export const CREATE_GROUP_OPTIONS = {
  location: text('CODE', 'Location of its databases (default local, for a local server)'),
  ...API_OPTIONS,
} as const satisfies OptionTable

/** An option whose absence keeps the current value. */
export const SWITCH = { type: 'string', value: 'on|off', choices: ['on', 'off'] } as const
const DELETE_PROTECTION = { ...SWITCH, help: 'Whether deletion is rejected' } as const

export const CONFIGURE_DATABASE_OPTIONS = {
  'size-limit': text('SIZE', 'Maximum size: 256mb, 1.5gb, or bytes; 0 for none'),
  'allow-attach': { ...SWITCH, help: 'Whether other databases of its group can attach it' },
  'block-reads': { ...SWITCH, help: 'Whether reads are rejected' },
  'block-writes': { ...SWITCH, help: 'Whether writes are rejected' },
  'delete-protection': DELETE_PROTECTION,
  'allowed-ips': {
    ...text(
      'LIST',
      'The only addresses that can access it, separated by commas: 192.0.2.7,198.51.100.0/24; "" for all',
    ),
    mayBeEmpty: true,
  },
  ...API_OPTIONS,
} as const satisfies OptionTable

export const CONFIGURE_GROUP_OPTIONS = {
  'delete-protection': DELETE_PROTECTION,
  ...API_OPTIONS,
} as const satisfies OptionTable

const YES_OPTION = { ...flag('Do not ask for confirmation'), short: 'y' } as const

export const DESTROY_OPTIONS = { yes: YES_OPTION, ...API_OPTIONS } as const satisfies OptionTable

export const DESTROY_DATABASE_OPTIONS = {
  yes: YES_OPTION,
  ...DATABASE_OPTIONS,
} as const satisfies OptionTable

export const API_TOKEN_OPTIONS = {
  group: text('NAME', 'Limit the token to this group; needs --scope'),
  scope: {
    ...choice(
      'SCOPE',
      [
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
      'Permission in the group: full-access, read-only (the same as read), db:create, db:delete, db:configure, db:mint-token, db:rotate-creds, group:configure, group:mint-token, group:rotate-creds. Without a group, only metrics: a token for /metrics of the local server. Can be repeated',
    ),
    multiple: true,
  },
  ...API_OPTIONS,
  organization: text(
    'SLUG',
    'Limit the token to this organization (default: all of yours; with --group, the only one that --token can access)',
  ),
} as const satisfies OptionTable

export const DATABASE_TOKEN_OPTIONS = {
  'read-only': flag('Create a read-only token'),
  expiration: text('TIME', 'Lifetime: 2w1d30m, 1h or never (default never)'),
  ...API_OPTIONS,
} as const satisfies OptionTable

export const EXPORT_OPTIONS = {
  all: text('DIR', 'Export all databases of a platform API to new files DIR/ORGANIZATION/NAME.db'),
  data: text('DIR', 'Data directory of a server on this machine, whether or not it is running'),
  ...ADDRESS_OPTIONS,
  ...PLATFORM_OPTIONS,
  organization: text('SLUG', 'Organization of the platform API (default: all that the token can access)'),
} as const satisfies OptionTable

export const USER_OPTIONS = {
  data: text('DIR', 'Data directory'),
  email: text('ADDRESS', 'Email address; invitations to it are accepted automatically'),
} as const satisfies OptionTable

export const NO_OPTIONS = {} as const satisfies OptionTable
