import type { PlatformHttp } from '../platform-http.ts'
import { UnstableBilling } from './billing.ts'
import { UnstableDatabases } from './databases.ts'
import { UnstableGroups } from './groups.ts'
import { UnstableInvites } from './invites.ts'
import { UnstableKeySets } from './key-sets.ts'
import { UnstableLocations } from './locations.ts'
import { UnstableOrganizations } from './organizations.ts'
import { UnstableTokens } from './tokens.ts'
import { UnstableV3 } from './v3.ts'

/**
 * Routes that the service's own tools use and that its documentation lacks, or has dropped. They may change or go at any
 * time. What comes is given as it is, in camel case and with `raw`.
 */
export class Unstable {
  readonly billing: UnstableBilling
  readonly databases: UnstableDatabases
  readonly groups: UnstableGroups
  /** Invitations by the routes of version 1. */
  readonly invites: UnstableInvites
  /** Key sets (JWKS) of issuers whose tokens the databases accept. */
  readonly keySets: UnstableKeySets
  readonly locations: UnstableLocations
  readonly organizations: UnstableOrganizations
  readonly tokens: UnstableTokens
  /** Routes that know organizations, groups and databases by their ids and not by their names. */
  readonly v3: UnstableV3

  constructor(http: PlatformHttp) {
    this.billing = new UnstableBilling(http)
    this.databases = new UnstableDatabases(http)
    this.groups = new UnstableGroups(http)
    this.invites = new UnstableInvites(http)
    this.keySets = new UnstableKeySets(http)
    this.locations = new UnstableLocations(http)
    this.organizations = new UnstableOrganizations(http)
    this.tokens = new UnstableTokens(http)
    this.v3 = new UnstableV3(http)
  }
}
