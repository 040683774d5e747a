export type { DatabaseTokenOptions, DatabaseTokenProvider } from './database-token-provider.ts'
export type * from './models.ts'
export type { Page, Pages } from './pages.ts'
export type { Answered, PlatformCall, PlatformResponse } from './platform-call.ts'
export { createPlatformClient, type PlatformClient, type PlatformRequestOptions } from './platform-client.ts'
export type {
  PlatformCallOptions,
  PlatformConfig,
  PlatformFetch,
  PlatformRequestEvent,
  PlatformResponseEvent,
  PlatformRetryEvent,
} from './platform-config.ts'
export {
  AbortedError,
  BadRequestError,
  ConflictError,
  ConnectionError,
  DecodeError,
  ForbiddenError,
  isAlreadyExists,
  MismatchError,
  NotFoundError,
  PaymentRequiredError,
  PlatformError,
  RateLimitError,
  ServerError,
  TimeoutError,
  UnauthorizedError,
  UnprocessableError,
} from './platform-errors.ts'
export type { Deleted, RemoveOptions } from './platform-http.ts'
export type { DatabaseToken, PlatformToken } from './platform-token.ts'
export type { WaitUntilReadyOptions } from './readiness.ts'
export { databaseUrl } from './readiness.ts'
export type { ApiTokenReach } from './resources/api-tokens.ts'
export type {
  CreateDatabaseOptions,
  DatabaseConfigurationInput,
  DatabaseSeed,
  ListDatabasesOptions,
  NewDatabase,
} from './resources/databases.ts'
export type { NewGroup } from './resources/groups.ts'
export type { NewInvite } from './resources/invites.ts'
export type { CreateTokenOptions, TableAction } from './resources/token-options.ts'
export type { UsageOptions } from './resources/usage.ts'
