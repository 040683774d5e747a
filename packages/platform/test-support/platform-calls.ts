import type { PlatformClient } from '../src/index.ts'

const permissions = [{ tables: ['t'], actions: ['data_read'] }]
const databaseTokenOptions = {
  expiration: '1h',
  authorization: 'read-only',
  readAttach: ['id'],
  permissions,
} as const
const apiTokenScope = { organization: 'acme', group: 'default', scopes: ['read'] } as const
const encryption = { encryptionKey: 'k', encryptionCipher: 'aes256gcm' }
const [db, group, instance, location] = ['{databaseName}', '{groupName}', '{instanceName}', '{location}']

/**
 * Calls of every method that is a route, with all of its arguments. Names in a path are those of its pattern, such as
 * `{databaseName}`.
 */
export const PLATFORM_CALLS: Readonly<Record<string, (platform: PlatformClient) => Promise<unknown>>> = {
  'databases.list': (p) => p.databases.list({ group: 'g', schema: 's', parent: 'p' }).page(),
  'databases.create': (p) =>
    p.databases.create({
      name: 'db',
      group: 'default',
      seed: { type: 'database', name: 'other', timestamp: new Date(0) },
      sizeLimit: '1gb',
      remoteEncryption: encryption,
    }),
  'databases.get': (p) => p.databases.get(db),
  'databases.delete': (p) => p.databases.delete(db),
  'databases.getConfiguration': (p) => p.databases.getConfiguration(db),
  'databases.updateConfiguration': (p) =>
    p.databases.updateConfiguration(db, {
      sizeLimit: '1gb',
      allowAttach: true,
      blockReads: false,
      blockWrites: false,
      deleteProtection: true,
      allowedIps: [],
      allowedAwsVpcIds: [],
    }),
  'databases.listInstances': (p) => p.databases.listInstances(db),
  'databases.getInstance': (p) => p.databases.getInstance(db, instance),
  'databases.listSnapshots': (p) => p.databases.listSnapshots(db),
  'databases.createSnapshot': (p) => p.databases.createSnapshot(db, { name: 'before' }),
  'databases.restoreSnapshot': (p) => p.databases.restoreSnapshot(db, '{snapshotName}'),
  'databases.deleteSnapshot': (p) => p.databases.deleteSnapshot(db, '{snapshotName}'),
  'databases.createToken': (p) => p.databases.createToken(db, databaseTokenOptions),
  'databases.usage': (p) => p.databases.usage(db, { from: new Date(0), to: new Date(1) }),
  'databases.stats': (p) => p.databases.stats(db),
  'databases.rotateTokens': (p) => p.databases.rotateTokens(db),
  'groups.list': (p) => p.groups.list(),
  'groups.create': (p) => p.groups.create({ name: 'g', location: 'local', extensions: 'all' }),
  'groups.get': (p) => p.groups.get(group),
  'groups.delete': (p) => p.groups.delete(group),
  'groups.getConfiguration': (p) => p.groups.getConfiguration(group),
  'groups.updateConfiguration': (p) => p.groups.updateConfiguration(group, { deleteProtection: true }),
  'groups.transfer': (p) => p.groups.transfer(group, 'other'),
  'groups.unarchive': (p) => p.groups.unarchive(group),
  'groups.addLocation': (p) => p.groups.addLocation(group, location),
  'groups.removeLocation': (p) => p.groups.removeLocation(group, location),
  'groups.update': (p) => p.groups.update(group),
  'groups.createToken': (p) => p.groups.createToken(group, databaseTokenOptions),
  'groups.rotateTokens': (p) => p.groups.rotateTokens(group),
  'locations.list': (p) => p.locations.list(),
  'organizations.list': (p) => p.organizations.list(),
  'organizations.create': (p) => p.organizations.create({ name: 'n' }),
  'organizations.get': (p) => p.organizations.get(),
  'organizations.update': (p) => p.organizations.update({ overages: true, requireMfa: false }),
  'organizations.plans': (p) => p.organizations.plans(),
  'organizations.invoices': (p) => p.organizations.invoices({ type: 'issued' }),
  'organizations.subscription': (p) => p.organizations.subscription(),
  'organizations.usage': (p) => p.organizations.usage(),
  'members.list': (p) => p.members.list(),
  'members.add': (p) => p.members.add({ username: 'ada', role: 'viewer' }),
  'members.get': (p) => p.members.get('{username}'),
  'members.updateRole': (p) => p.members.updateRole('{username}', 'admin'),
  'members.remove': (p) => p.members.remove('{username}'),
  'apiTokens.validate': (p) => p.apiTokens.validate(),
  'apiTokens.list': (p) => p.apiTokens.list(),
  'apiTokens.create': (p) => p.apiTokens.create({ name: '{tokenName}', ...apiTokenScope }),
  'apiTokens.revoke': (p) => p.apiTokens.revoke('{tokenName}'),
  'apiTokens.listOfOrganization': (p) => p.apiTokens.listOfOrganization(),
  'apiTokens.revokeOfOrganization': (p) => p.apiTokens.revokeOfOrganization('{tokenId}'),
  'auditLogs.list': (p) => p.auditLogs.list().page(),
  'invites.list': (p) => p.invites.list(),
  'invites.create': (p) => p.invites.create({ email: 'ada@example.com', role: 'admin' }),
  'invites.delete': (p) => p.invites.delete('{email}'),
  'users.current': (p) => p.users.current(),
}
