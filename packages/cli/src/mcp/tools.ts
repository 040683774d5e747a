import type { Client } from '@batonsql/core'
import { splitStatements } from '@batonsql/core/adapter'
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import type * as zod from 'zod'
import type { InspectorClient } from './inspector-client.ts'
import { listRecentRequests } from './recent-requests.ts'
import { runQuery } from './run-query.ts'

export interface ToolContext {
  readonly z: typeof zod
  readonly db: Client
  /** Null for a database on another machine. */
  readonly inspector: InspectorClient | null
  readonly mayWrite: boolean
}

/**
 * Tables with their columns, views, and the statements that created them, their indexes and triggers. The columns of a view are
 * not listed, because that fails if one of its tables is missing.
 */
const SCHEMA = `select m.name as "table", m.type,
    case m.type when 'table' then (select group_concat(trim(name || ' ' || type), ', ') from pragma_table_xinfo(m.name)) end
      as columns,
    (select group_concat(sql, ';' || char(10)) from sqlite_schema where tbl_name = m.name collate nocase) as statements
  from sqlite_schema as m
  where m.type in ('table', 'view') and m.name not like 'sqlite\\_%' escape '\\' and m.name not in ('libsql_vector_meta_shadow', 'libsql_wasm_func_table')
    and (?1 is null or m.name = ?1 collate nocase)
  order by m.name`

const READ_ONLY_ANNOTATIONS = { readOnlyHint: true, openWorldHint: false } as const
const DEFAULT_ROWS = 100
const MAX_ROWS = 1_000
const DEFAULT_REQUESTS = 20
const MAX_REQUESTS = 200

/** Registers the tools, including the one that writes if the user has allowed it. */
export function registerTools(server: McpServer, context: ToolContext): void {
  registerReadTools(server, context)
  registerRequestTool(server, context)
  if (context.mayWrite) registerWriteTool(server, context)
}

function registerReadTools(server: McpServer, { z, db }: ToolContext): void {
  const sql = z.string().describe('One SQLite statement')
  const args = z
    .array(
      z.union([
        z.string(),
        z.number().refine(isExact, 'an integer beyond 2^53 is rounded: pass it as text'),
        z.null(),
      ]),
    )
    .default([])
    .describe('Values of the parameters ?1, ?2, …')
  const maxRows = z.int().min(1).max(MAX_ROWS).default(DEFAULT_ROWS).describe('Maximum number of rows')
  server.registerTool(
    'schema',
    {
      description: 'Lists tables with their columns, views, and the statements that created them.',
      inputSchema: { table: z.string().optional().describe('Only this table or view') },
      annotations: READ_ONLY_ANNOTATIONS,
    },
    async ({ table = null }, { signal }) =>
      toTextResult(await runQuery(db, SCHEMA, [table], { maxRows: MAX_ROWS, signal })),
  )
  server.registerTool(
    'query',
    {
      description:
        'Runs a read-only statement and returns its rows. Integers beyond 2^53 are text, blobs are base64, long values are truncated: use substr() for the rest.',
      inputSchema: { sql, args, maxRows },
      annotations: READ_ONLY_ANNOTATIONS,
    },
    async (input, { signal }) =>
      toTextResult(await runQuery(db, input.sql, input.args, { maxRows: input.maxRows, signal })),
  )
  server.registerTool(
    'query_plan',
    {
      description:
        'Explains how SQLite would run a statement, without running it: which tables it scans, and which indexes it uses.',
      inputSchema: { sql, args },
      annotations: READ_ONLY_ANNOTATIONS,
    },
    async (input, { signal }) => {
      const explain = `explain query plan ${input.sql}`
      return toTextResult(await runQuery(db, explain, input.args, { maxRows: MAX_ROWS, signal }))
    },
  )
}

function registerRequestTool(server: McpServer, { z, inspector }: ToolContext): void {
  if (inspector === null) return
  const limit = z
    .int()
    .min(1)
    .max(MAX_REQUESTS)
    .default(DEFAULT_REQUESTS)
    .describe('Maximum number of requests')
  const contains = z
    .string()
    .default('')
    .describe('Only requests with this text, such as a table, an error or waitedForWriteLockMs')
  server.registerTool(
    'recent_requests',
    {
      description:
        'Lists the latest requests of all clients to the local server, newest last: statements, duration, errors, transactions, how long each waited for the write lock and which transactions held it during the wait; and which transactions hold write locks now. Complete since seenSince, when this tool connected, up to the last 1,000 requests; includes earlier requests if the inspector was open.',
      inputSchema: { limit, contains },
      annotations: READ_ONLY_ANNOTATIONS,
    },
    (filter) => toTextResult(listRecentRequests(inspector.read(), filter)),
  )
}

function registerWriteTool(server: McpServer, { z, db }: ToolContext): void {
  server.registerTool(
    'execute',
    {
      description:
        'Runs statements that change the database, in one transaction: if one fails, none is kept. BEGIN and COMMIT are not needed.',
      inputSchema: { sql: z.string().describe('One or more SQLite statements') },
      annotations: { destructiveHint: true, openWorldHint: false },
    },
    async (input, { signal }) => {
      const results = await db.transaction((tx) => tx.batch(splitStatements(input.sql), { signal }))
      return toTextResult(results.map(({ rowsAffected }) => ({ rowsAffected })))
    },
  )
}

/**
 * Whether a number is certain to be the one that was written. An integer beyond 2^53 may have been rounded; beyond 2^63, SQLite stores
 * it as a REAL anyway.
 */
const isExact = (value: number): boolean =>
  !Number.isInteger(value) || Number.isSafeInteger(value) || Math.abs(value) > 2 ** 63

const toTextResult = (value: object): { content: { type: 'text'; text: string }[] } => ({
  content: [{ type: 'text', text: JSON.stringify(value) }],
})
