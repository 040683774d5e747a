import { apiTokenRoutes } from './api-tokens.ts'
import { auditLogRoutes } from './audit-logs.ts'
import { billingRoutes } from './billing.ts'
import { configurationRoutes } from './configuration.ts'
import { databaseTokenRoutes } from './database-tokens.ts'
import { databaseRoutes } from './databases.ts'
import { groupRoutes } from './groups.ts'
import { instanceRoutes } from './instances.ts'
import { inviteRoutes } from './invites.ts'
import { keySetRoutes } from './key-sets.ts'
import { locationRoutes } from './locations.ts'
import { memberRoutes } from './members.ts'
import { organizationRoutes } from './organizations.ts'
import type { Route } from './route.ts'
import { snapshotRoutes } from './snapshots.ts'
import { transferRoutes } from './transfers.ts'
import { unsupportedRoutes } from './unsupported-routes.ts'
import { usageRoutes } from './usage.ts'
import { userRoutes } from './users.ts'
import { version3Routes } from './version-3.ts'

/** All routes of the platform API, with the access they require. */
export const ROUTES: readonly Route[] = [
  ...databaseRoutes,
  ...configurationRoutes,
  ...instanceRoutes,
  ...snapshotRoutes,
  ...databaseTokenRoutes,
  ...usageRoutes,
  ...groupRoutes,
  ...transferRoutes,
  ...locationRoutes,
  ...organizationRoutes,
  ...memberRoutes,
  ...inviteRoutes,
  ...apiTokenRoutes,
  ...auditLogRoutes,
  ...billingRoutes,
  ...userRoutes,
  ...keySetRoutes,
  ...version3Routes,
  ...unsupportedRoutes,
]
