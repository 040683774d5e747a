/** First path segments of routes; databases cannot have these names. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set([
  'v1',
  'v2',
  'v3',
  'v3-protobuf',
  'version',
  'health',
  'dump',
  'beta',
  'dev',
  'console',
  'info',
  'export',
  'sync',
  '_baton',
])
