export type {
  PlatformCallOptions,
  PlatformConfig,
  PlatformEvent,
  PlatformFetch,
} from './config.ts'
export type { DatabaseTokenOptions, DatabaseTokenProvider } from './database-token-provider.ts'
export type * from './models.ts'
export type { Page, Pages } from './pages.ts'
export type { CallResult, PlatformCall, PlatformResponse } from './platform-call.ts'
export { createPlatformClient, type PlatformClient, type PlatformRequestOptions } from './platform-client.ts'
export { isAlreadyExists, isNotFound, PlatformError, type PlatformOutcome } from './platform-error.ts'
export { databaseUrl, type WaitUntilReadyOptions } from './readiness.ts'
export type { Deleted, DeleteOptions, PagedOptions } from './route.ts'
export type {
  CreateDatabaseOptions,
  CreateTokenOptions,
  DatabaseConfigurationInput,
  DatabaseSeed,
  Databases,
  ListDatabasesOptions,
  NewDatabase,
  TableAction,
  UsageOptions,
} from './routes/databases.ts'
export type { AddLocationOptions, GroupConfigurationInput, Groups, NewGroup } from './routes/groups.ts'
export type {
  ApiTokens,
  AuditLogs,
  Invites,
  InvoicesOptions,
  Locations,
  Members,
  NewApiToken,
  NewInvite,
  NewMember,
  NewOrganization,
  OrganizationChanges,
  Organizations,
  Users,
} from './routes/organizations.ts'
export type { DatabaseToken, PlatformToken } from './token.ts'
