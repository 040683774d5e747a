import * as v from 'valibot'
import { getRevokedAccess } from '../databases.ts'
import type { DatabaseConfiguration } from '../registry/rows.ts'
import { checkAllowedIps } from '../rules/allowed-ips.ts'
import { formatSizeLimit, parseSizeLimit } from '../rules/size-limit.ts'
import type { Call } from './call.ts'
import { DatabaseConfiguration as DatabaseConfigurationModel } from './models.ts'
import { DATABASE, documented, type Route } from './route.ts'

/** Null keeps the value of a field, but clears the two lists. */
const ConfigurationBody = v.strictObject({
  size_limit: v.nullish(v.union([v.string(), v.pipe(v.number(), v.integer(), v.minValue(0))])),
  allow_attach: v.nullish(v.boolean()),
  block_reads: v.nullish(v.boolean()),
  block_writes: v.nullish(v.boolean()),
  delete_protection: v.nullish(v.boolean()),
  allowed_ips: v.nullish(v.array(v.string())),
  allowed_aws_vpc_ids: v.nullish(v.array(v.string())),
})

export const configurationRoutes: readonly Route[] = [
  documented(`GET ${DATABASE}/configuration`, 'read', { response: DatabaseConfigurationModel }, (call) =>
    configurationView(call.database().configuration),
  ),
  documented(
    `PATCH ${DATABASE}/configuration`,
    'db:configure',
    { body: ConfigurationBody, response: DatabaseConfigurationModel },
    changeConfiguration,
  ),
]

async function changeConfiguration(call: Call) {
  const row = call.database()
  const body = call.body(ConfigurationBody)
  const { databases } = call.plane
  const { configuration: previous } = row
  checkAllowedIps(body.allowed_ips ?? [])
  const configuration: DatabaseConfiguration = {
    sizeLimitBytes:
      body.size_limit == null ? previous.sizeLimitBytes : parseSizeLimit(String(body.size_limit)),
    allowAttach: body.allow_attach ?? previous.allowAttach,
    blockReads: body.block_reads ?? previous.blockReads,
    blockWrites: body.block_writes ?? previous.blockWrites,
    blockReason: previous.blockReason,
    deleteProtection: body.delete_protection ?? previous.deleteProtection,
    allowedIps: body.allowed_ips === undefined ? previous.allowedIps : (body.allowed_ips ?? []),
    allowedAwsVpcIds:
      body.allowed_aws_vpc_ids === undefined ? previous.allowedAwsVpcIds : (body.allowed_aws_vpc_ids ?? []),
  }
  const isProtected = configuration.deleteProtection
  const audit =
    isProtected === previous.deleteProtection
      ? null
      : {
          code: isProtected ? 'db-protect' : 'db-unprotect',
          message: `${isProtected ? 'protected' : 'unprotected'} database ${row.name}`,
          data: { database: row.name },
        }
  call.commit(audit, () => call.plane.registry.databases.put({ ...row, configuration }))
  await databases.apply(row.id, { revoked: getRevokedAccess(previous, configuration) })
  return configurationView(configuration)
}

function configurationView(configuration: DatabaseConfiguration) {
  return {
    size_limit: formatSizeLimit(configuration.sizeLimitBytes),
    allow_attach: configuration.allowAttach,
    block_reads: configuration.blockReads,
    block_writes: configuration.blockWrites,
    delete_protection: configuration.deleteProtection,
    allowed_ips: configuration.allowedIps,
    allowed_aws_vpc_ids: configuration.allowedAwsVpcIds,
  }
}
