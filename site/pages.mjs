// The list of all documentation pages. The sidebar of the site, llms.txt and the list in README.md are generated from it:
// `npm run pages`. `npm run check` fails for a page that is missing here.
import { readdirSync } from 'node:fs'

/** What a program that uses Baton must know; llms.txt begins with it. */
export const FACTS = [
  'A client is created with `createClient({ url, authToken })` and closed with `close()`. There is no connection to open.',
  '`execute` is one HTTP request, `batch` of any length one, a transaction of n statements n + 1.',
  'A transaction can lose its write lock 5 s after it acquired it, if another writer waits; it then ends with a StreamError, and nothing of it is kept.',
  'Errors have a `code` to match on and an `outcome`: `not_applied`, or `unknown` if a write may have been applied.',
  'Integers are returned as number if that is exact, otherwise as bigint.',
]

/**
 * Groups of pages. `from`: the file; `to`: its path on the site, absent for a page that is not on the site; `about`: the
 * description in llms.txt, absent for a page that only the site lists.
 */
export const GROUPS = [
  {
    title: 'Guide',
    pages: [
      {
        from: 'README.md',
        to: 'start',
        title: 'Start',
        about: 'installation, and a first program with Kysely, with Drizzle, and without either',
      },
      {
        from: 'docs/concepts.md',
        to: 'concepts',
        title: 'Concepts',
        about: 'requests, batches, streams, time limits, outcomes, and the terms',
      },
      {
        from: 'docs/recipes.md',
        to: 'recipes',
        title: 'Recipes',
        about: 'dates, pagination, many tenants, slow queries, moving data, CI, Docker, Prisma, proxies',
      },
      {
        from: 'docs/serverless.md',
        to: 'serverless',
        title: 'Serverless',
        about: 'frozen functions, where to create a client, tokens, caches; examples',
      },
      {
        from: 'docs/migrations.md',
        to: 'migrations',
        title: 'Migrations',
        about: 'with Kysely, with Drizzle, and for many tenants',
      },
      {
        from: 'docs/works-with.md',
        to: 'works-with',
        title: 'Works with',
        about: 'better-auth, Auth.js, drizzle-seed, Prisma and others: how to connect them, and tests passed',
      },
    ],
  },
  {
    title: 'Client',
    pages: [
      {
        from: 'packages/core/README.md',
        to: 'core/index',
        title: 'Core',
        about: 'the client, its options, values and errors',
      },
      {
        from: 'packages/core/docs/transactions.md',
        to: 'core/transactions',
        title: 'Transactions',
        about: 'guarantees, and how to handle each error',
      },
      {
        from: 'packages/core/docs/optimistic.md',
        to: 'core/optimistic',
        title: 'Optimistic transactions',
        about:
          'reads without the write lock, for many writers on a database that is far away: when, how, what it costs',
      },
      {
        from: 'packages/core/docs/errors.md',
        to: 'errors',
        title: 'Errors',
        about: 'each error code, and how to handle it',
      },
      {
        from: 'packages/core/docs/database-api.md',
        to: 'core/database-api',
        title: 'Dumps, changes, jobs',
        about: '`dump`, `restore`, `listen`, `describe`, `jobs`',
      },
      {
        from: 'packages/core/docs/opentelemetry.md',
        to: 'core/opentelemetry',
        title: 'OpenTelemetry',
        about: 'spans and metrics',
      },
    ],
  },
  {
    title: 'Kysely and Drizzle',
    pages: [
      {
        from: 'packages/kysely-dialect/README.md',
        to: 'kysely/index',
        title: 'The dialect for Kysely',
        about: 'configuration, transactions, batches, migrations',
      },
      {
        from: 'packages/drizzle-driver/README.md',
        to: 'drizzle/index',
        title: 'The driver for Drizzle',
        about: 'transactions, batches, the migrator, Drizzle 1.0',
      },
    ],
  },
  {
    title: 'Local server',
    pages: [
      {
        from: 'packages/local-server/README.md',
        to: 'server/index',
        title: 'The server',
        about: 'options, and tests with `useDatabase`',
      },
      {
        from: 'packages/cli/README.md',
        to: 'cli/index',
        title: 'The command-line package',
        about: 'how to run it with and without the server',
      },
      {
        from: 'packages/cli/docs/command.md',
        to: 'cli/command',
        title: 'The baton command',
        about: 'every command and option, exit codes',
      },
      {
        from: 'packages/cli/docs/mcp.md',
        to: 'cli/mcp',
        title: 'An MCP server for agents',
        about: 'schema, queries, plans and recent requests of a database for an AI agent',
      },
      {
        from: 'packages/local-server/docs/testing.md',
        to: 'server/testing',
        title: 'Tests',
        about: '`useDatabase`: templates that are kept, failures, jest and bun:test, clients in module scope',
      },
      {
        from: 'packages/local-server/docs/inspector.md',
        to: 'server/inspector',
        title: 'The request inspector',
        about: 'a page that shows requests as they arrive',
      },
      {
        from: 'packages/local-server/docs/security.md',
        to: 'server/security',
        title: 'Security',
        about: 'what the server protects against, and what it does not',
      },
      {
        from: 'packages/local-server/docs/protocol.md',
        to: 'server/protocol',
        title: 'The protocol',
        about: 'requests and responses on the wire',
      },
      {
        from: 'packages/local-server/docs/engine.md',
        to: 'server/engine',
        title: 'The engine',
        about: 'libSQL as WebAssembly',
      },
    ],
  },
  {
    title: 'Platform and hosting',
    pages: [
      {
        from: 'docs/platform.md',
        to: 'platform',
        title: 'The platform API',
        about: 'tokens, permissions, what each change does, and every route',
      },
      {
        from: 'packages/platform/README.md',
        to: 'platform-client/index',
        title: 'The platform client',
        about: 'calls, retries and errors of `@batonsql/platform`',
      },
      {
        from: 'docs/replicas.md',
        to: 'replicas',
        title: 'Replicas',
        about: 'stale reads, lag and failures of replicas on a laptop and in CI',
      },
      {
        from: 'docs/tursodb.md',
        to: 'tursodb',
        title: "Turso's engine",
        about: 'what differs from libsql-server: the write lock, concurrent transactions, SQL',
      },
      {
        from: 'docs/self-hosting.md',
        to: 'self-hosting',
        title: 'Self-hosting',
        about:
          'systemd, Docker, backup, monitoring, your own libsql-server, and why it may stop responding to writes',
      },
      {
        from: 'docs/limits.md',
        to: 'limits',
        title: 'Limits and differences',
        about: 'what the local server does not do, and each difference from libsql-server, with its reason',
      },
    ],
  },
  {
    title: 'Performance',
    pages: [
      {
        from: 'docs/performance.md',
        to: 'performance',
        title: 'Summary',
        about: 'figures, and how to measure them',
      },
      {
        from: 'docs/performance/clients.md',
        to: 'measured/clients',
        title: 'Clients',
        about: 'core, Kysely and Drizzle, cold starts, requests, bundles, memory',
      },
      {
        from: 'docs/performance/servers.md',
        to: 'measured/servers',
        title: 'Servers',
        about: 'embedded, the gateway, many writers, many databases',
      },
    ],
  },
  {
    title: 'Coming from',
    pages: [
      {
        from: 'docs/coming-from.md',
        to: 'coming-from',
        title: 'Other clients',
        about: '@libsql/client, drizzle-orm/libsql and other Kysely dialects, call by call',
      },
      {
        from: 'packages/libsql-client/README.md',
        to: 'core/libsql-client',
        title: '@libsql/client, in one line',
        about: 'replacing it with `@batonsql/libsql-client`, and the differences',
      },
    ],
  },
  {
    title: 'Project',
    pages: [
      {
        from: 'CONTRIBUTING.md',
        title: 'Contributing',
        about: 'commands, conventions, and an overview of the repository',
      },
      {
        from: 'docs/decisions/README.md',
        to: 'decisions/index',
        title: 'Decisions',
        about: 'records of design decisions, with their reasons',
      },
      { from: 'SECURITY.md', title: 'Security policy', about: 'how to report a vulnerability' },
      { from: 'CODE_OF_CONDUCT.md', title: 'Code of conduct', about: 'how we treat each other' },
    ],
  },
]

/** Pages of the site that are in no list. docs/decisions/README.md links to them. */
export const RECORDS = readdirSync(new URL('../docs/decisions/', import.meta.url))
  .filter((name) => /^\d{4}-.*\.md$/.test(name))
  .map((name) => ({
    from: `docs/decisions/${name}`,
    to: `decisions/${name.slice(0, -3)}`,
    title: name.slice(5, -3).replaceAll('-', ' '),
  }))

/**
 * Entry points of the packages from whose docblocks the reference is generated, by page. The driver for Drizzle 1.0 uses the
 * types of that version.
 */
export const REFERENCE = [
  {
    tsconfig: 'tsconfig.json',
    entries: {
      '@batonsql/core': 'packages/core/src/index.ts',
      '@batonsql/core/adapter': 'packages/core/src/adapter.ts',
      '@batonsql/core/opentelemetry': 'packages/core/src/observe/opentelemetry/index.ts',
      '@batonsql/platform': 'packages/platform/src/index.ts',
      '@batonsql/kysely-dialect': 'packages/kysely-dialect/src/index.ts',
      '@batonsql/libsql-client': 'packages/libsql-client/src/node.ts',
      '@batonsql/drizzle-driver': 'packages/drizzle-driver/src/index.ts',
      '@batonsql/drizzle-driver/migrator': 'packages/drizzle-driver/src/migrator.ts',
      '@batonsql/local-server': 'packages/local-server/src/index.ts',
      '@batonsql/local-server/sqld': 'packages/local-server/src/sqld.ts',
      '@batonsql/local-server/testing': 'packages/local-server/src/testing.ts',
    },
  },
  {
    tsconfig: 'packages/drizzle-driver/tsconfig.v1.json',
    entries: {
      '@batonsql/drizzle-driver/v1': 'packages/drizzle-driver/src/v1/index.ts',
      '@batonsql/drizzle-driver/v1/migrator': 'packages/drizzle-driver/src/v1/migrator.ts',
    },
  },
]
