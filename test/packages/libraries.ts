/** Libraries that depend on @libsql/client, with the tested versions. */
export const LIBRARIES = {
  '@auth/drizzle-adapter': '1.11.3',
  '@mastra/core': '1.71.0',
  '@mastra/libsql': '1.23.1',
  '@payloadcms/db-sqlite': '3.90.2',
  '@prisma/adapter-libsql': '7.10.0',
  '@prisma/client': '7.10.0',
  '@prisma/driver-adapter-utils': '7.10.0',
  // the version of the engine that this version of Prisma downloads
  '@prisma/schema-engine-wasm': '7.10.0-4.0edf323efd1d98336f3f0a68684b56f689b900d3',
  'drizzle-kit': '0.31.11',
  'drizzle-orm': '0.45.2',
  payload: '3.90.2',
  prisma: '7.10.0',
} as const
