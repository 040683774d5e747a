// Which page of the repository stands where on the site. They stay where they are, and are copied when the site is built.

/** The pages that `npm run bench -- --write` makes of its suites. */
const SUITES = [
  ['client', 'other clients'],
  ['orm', 'Kysely and Drizzle'],
  ['cold-start', 'cold start'],
  ['distance', 'a distant server'],
  ['wire', 'on the wire'],
  ['size', 'bundles'],
  ['options', 'what options cost'],
  ['servers', 'the two servers'],
  ['memory', 'memory'],
]

/** Groups of the side bar; each page with its source, and the one section of it where the page is no more. */
export const GROUPS = [
  {
    title: 'Begin',
    pages: [
      { from: 'README.md', to: 'index', title: 'Start' },
      { from: 'docs/concepts.md', to: 'concepts', title: 'Concepts' },
      { from: 'packages/local-server/README.md', section: 'In tests', to: 'testing', title: 'Testing' },
      { from: 'docs/recipes.md', to: 'recipes', title: 'Recipes' },
      { from: 'docs/serverless.md', to: 'serverless', title: 'Serverless' },
      { from: 'docs/migrations.md', to: 'migrations', title: 'Migrations' },
      { from: 'packages/core/docs/errors.md', to: 'errors', title: 'Errors' },
      { from: 'docs/glossary.md', to: 'glossary', title: 'Glossary' },
    ],
  },
  {
    title: 'Client',
    pages: [
      { from: 'packages/core/README.md', to: 'core/index', title: 'Core' },
      { from: 'packages/core/docs/transactions.md', to: 'core/transactions', title: 'Transactions' },
      { from: 'packages/core/docs/database-api.md', to: 'core/database-api', title: 'Dumps, changes, jobs' },
      { from: 'packages/core/docs/opentelemetry.md', to: 'core/opentelemetry', title: 'OpenTelemetry' },
      {
        from: 'packages/libsql-client/README.md',
        to: 'core/libsql-client',
        title: 'In the place of @libsql/client',
      },
    ],
  },
  {
    title: 'Platform',
    pages: [
      { from: 'packages/platform/README.md', to: 'platform-client/index', title: 'The client' },
      {
        from: 'packages/platform/docs/platform.md',
        to: 'platform-client/platform',
        title: 'Calls and errors',
      },
    ],
  },
  {
    title: 'Kysely',
    pages: [
      { from: 'packages/kysely-dialect/README.md', to: 'kysely/index', title: 'The dialect' },
      { from: 'packages/kysely-dialect/docs/works-with.md', to: 'kysely/works-with', title: 'Works with' },
    ],
  },
  {
    title: 'Drizzle',
    pages: [
      { from: 'packages/drizzle-driver/README.md', to: 'drizzle/index', title: 'The driver' },
      { from: 'packages/drizzle-driver/docs/works-with.md', to: 'drizzle/works-with', title: 'Works with' },
    ],
  },
  {
    title: 'Local server',
    pages: [
      { from: 'packages/local-server/README.md', to: 'server/index', title: 'The server' },
      { from: 'packages/local-server/docs/command.md', to: 'server/command', title: 'The command baton' },
      {
        from: 'packages/local-server/docs/testing.md',
        to: 'server/testing',
        title: 'Tests with other runners',
      },
      {
        from: 'packages/local-server/docs/inspector.md',
        to: 'server/inspector',
        title: 'The request inspector',
      },
      { from: 'packages/local-server/docs/security.md', to: 'server/security', title: 'Security' },
      { from: 'packages/local-server/docs/protocol.md', to: 'server/protocol', title: 'The protocol' },
      { from: 'packages/local-server/docs/conformance.md', to: 'server/conformance', title: 'Differences' },
      { from: 'packages/local-server/docs/engine.md', to: 'server/engine', title: 'The engine' },
    ],
  },
  {
    title: 'Service',
    pages: [
      { from: 'docs/self-hosting.md', to: 'self-hosting', title: 'Self-hosting' },
      {
        from: 'docs/libsql-server-lost-writer.md',
        to: 'libsql-server-lost-writer',
        title: 'A defect of libsql-server',
      },
      { from: 'docs/platform.md', to: 'platform', title: 'Platform API, route by route' },
      { from: 'docs/limits.md', to: 'limits', title: 'Limits' },
      { from: 'docs/decisions.md', to: 'decisions', title: 'Decisions' },
    ],
  },
  {
    title: 'Performance',
    pages: [
      { from: 'docs/performance.md', to: 'performance', title: 'Summary' },
      ...SUITES.map(([name, title]) => ({
        from: `docs/performance/${name}.md`,
        to: `measured/${name}`,
        title,
      })),
    ],
  },
  {
    title: 'Coming from',
    pages: [
      {
        from: 'packages/core/docs/coming-from-libsql-client.md',
        to: 'coming-from/libsql-client',
        title: '@libsql/client',
      },
      {
        from: 'packages/drizzle-driver/docs/coming-from-drizzle-orm-libsql.md',
        to: 'coming-from/drizzle-orm-libsql',
        title: 'drizzle-orm/libsql',
      },
      {
        from: 'packages/kysely-dialect/docs/coming-from-other-dialects.md',
        to: 'coming-from/kysely-dialects',
        title: 'Other Kysely dialects',
      },
    ],
  },
]

/**
 * Entries of the packages whose docblocks make the reference, by the page they get. The driver for Drizzle 1.0 has the types of that
 * version.
 */
export const REFERENCE = [
  {
    tsconfig: 'tsconfig.json',
    entries: {
      '@batonsql/core': 'packages/core/src/index.ts',
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
