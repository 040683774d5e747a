export { ApiError } from './api-error.ts'
export type { PendingChange } from './backend-changes.ts'
export {
  claimBackend,
  DEFAULT_GROUP,
  getOrCreateKey,
  openOperatorAccount,
  PLATFORM_KEY,
} from './bootstrap.ts'
export { ControlPlane } from './control-plane.ts'
export { NEW_CONFIGURATION } from './databases.ts'
export { newMember, newOrganization } from './registry/new-rows.ts'
export { REGISTRY_FILE, Registry } from './registry/registry.ts'
export type { DatabaseConfiguration, DatabaseRow, GroupRow, SnapshotRow, UserRow } from './registry/rows.ts'
export { getGroupReplicaLocations, getReplicaLocations } from './replica-locations.ts'
export { isAddressAllowed } from './rules/allowed-ips.ts'
export { parseExpiration } from './rules/expiration.ts'
export { isLocation, LOCATIONS } from './rules/locations.ts'
export { isSlug } from './rules/names.ts'
export { parseSizeLimit } from './rules/size-limit.ts'
export { ApiTokens } from './tokens/api-tokens.ts'
export { mintDatabaseToken, type TokenAuthorization } from './tokens/database-tokens.ts'
