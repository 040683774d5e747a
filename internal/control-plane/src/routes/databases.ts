import { rm } from 'node:fs/promises'
import { RESERVED_NAMES } from '@batonsql/server-common/backend'
import * as v from 'valibot'
import { ApiError, notSupported } from '../api-error.ts'
import { NEW_CONFIGURATION, type NewDatabase } from '../databases.ts'
import type { DatabaseRow, GroupRow } from '../registry/rows.ts'
import { checkDatabaseName } from '../rules/names.ts'
import { parseSizeLimit } from '../rules/size-limit.ts'
import type { Call } from './call.ts'
import type { DumpShare } from './dump-budget.ts'
import { MAX_DUMP_BYTES } from './dump-store.ts'
import { Database } from './models.ts'
import { limitBytes } from './read-body.ts'
import { DATABASE, documented, ORGANIZATION, type Route, returns, undocumented } from './route.ts'
import { databaseView, getHostname } from './views.ts'

/** Maximum number of databases in a response, as of the service. */
const MAX_LISTED = 1_000

export const NewDatabaseBody = v.object({
  name: v.string(),
  // one of these is required, except for a copy of another database
  group: v.nullish(v.string()),
  group_id: v.nullish(v.string()),
  size_limit: v.nullish(v.string()),
  is_schema: v.nullish(v.boolean()),
  schema: v.nullish(v.string()),
  remote_encryption: v.nullish(v.unknown()),
  use_tursodb: v.nullish(v.boolean()),
  seed: v.nullish(
    v.object({
      type: v.string(),
      name: v.nullish(v.string()),
      // the CLI's name for `name`
      value: v.nullish(v.string()),
      url: v.nullish(v.string()),
      timestamp: v.nullish(v.string()),
    }),
  ),
})
type NewDatabaseBody = v.InferOutput<typeof NewDatabaseBody>

const LIST = returns(
  {
    databases: v.array(Database),
    pagination: v.optional(v.object({ next: v.nullable(v.string()) })),
  },
  { query: ['group', 'schema', 'parent', 'type', 'limit', 'cursor'] },
)
const CREATE = returns(
  { database: v.object({ DbId: v.string(), Hostname: v.string(), Name: v.string() }) },
  { body: NewDatabaseBody },
)
const UPLOAD = returns({ dump_url: v.string() }, { body: v.object({ file: v.string() }), isForm: true })

export const databaseRoutes: readonly Route[] = [
  documented(`GET ${ORGANIZATION}/databases`, 'read', LIST, listDatabases),
  documented(`POST ${ORGANIZATION}/databases`, 'db:create', CREATE, async (call) => {
    const row = await createDatabase(call)
    return { database: { DbId: row.id, Hostname: getHostname(call, row), Name: row.name } }
  }),
  undocumented(`POST ${ORGANIZATION}/databases/dumps`, 'db:create', UPLOAD, uploadDump),
  documented(`GET ${DATABASE}`, 'read', returns({ database: Database }), (call) => ({
    database: databaseView(call, call.database()),
  })),
  documented(`DELETE ${DATABASE}`, 'db:delete', returns({ database: v.string() }), async (call) => ({
    database: await deleteDatabase(call),
  })),
  undocumented(`POST ${DATABASE}/wakeup`, 'db:configure', { response: null }, wakeDatabase),
]

function listDatabases(call: Call) {
  const { group, schema, parent, type } = Object.fromEntries(call.request.query)
  if (type !== undefined && type !== 'logical' && type !== 'schema')
    throw new ApiError(400, 'invalid type: expected logical or schema')
  const { rows, ...pagination } = getDatabasePage(call, (row) => {
    const view = databaseView(call, row)
    return (
      (group === undefined || view.group === group) &&
      (schema === undefined || schema === '' || view.schema === schema) &&
      (parent === undefined || view.parent?.id === parent) &&
      // every database has the type logical
      (type !== 'schema' || view.is_schema)
    )
  })
  return { databases: rows.map((row) => databaseView(call, row)), ...pagination }
}

/**
 * Returns a page of the matching databases in order of creation: those after the query's cursor, up to its limit. The pagination is
 * returned only if the query has a limit.
 * @throws ApiError 400 for an invalid limit or cursor
 */
export function getDatabasePage(
  call: Call,
  matches: (row: DatabaseRow) => boolean,
): { readonly rows: readonly DatabaseRow[]; readonly pagination?: { readonly next: string | null } } {
  const limit = Number(call.query('limit') ?? MAX_LISTED)
  if (!Number.isInteger(limit) || limit < 1) throw new ApiError(400, 'invalid limit')
  const cursor = call.query('cursor')
  const position = cursor === undefined ? null : decodeCursor(cursor)
  const matching = call
    .databases()
    .toSorted(compareByAge)
    // after the last listed database, even if it no longer exists
    .filter((row) => position === null || compareByAge(row, position) > 0)
    .filter(matches)
  const rows = matching.slice(0, Math.min(limit, MAX_LISTED))
  const lastRow = rows.at(-1)
  const next = lastRow !== undefined && rows.length < matching.length ? encodeCursor(lastRow) : null
  return { rows, ...(call.query('limit') !== undefined && { pagination: { next } }) }
}

/** Position in a list, which is in order of creation. */
type Position = Pick<DatabaseRow, 'createdAt' | 'id'>

function compareByAge(a: Position, b: Position): number {
  return a.createdAt - b.createdAt || (a.id < b.id ? -1 : Number(a.id > b.id))
}

function encodeCursor({ createdAt, id }: Position): string {
  return Buffer.from(JSON.stringify({ createdAt, id })).toString('base64url')
}

const Cursor = v.object({ createdAt: v.number(), id: v.string() })

function decodeCursor(text: string): Position {
  try {
    const { createdAt, id } = v.parse(Cursor, JSON.parse(Buffer.from(text, 'base64url').toString('utf8')))
    return { createdAt, id: id as DatabaseRow['id'] }
  } catch {
    throw new ApiError(400, 'invalid cursor')
  }
}

/** Creates the database that the body describes. @throws ApiError */
export async function createDatabase(call: Call): Promise<DatabaseRow> {
  const body = call.body(NewDatabaseBody)
  const { databases } = call.plane
  const group = chooseGroup(call, body)
  checkNameAvailable(call, body.name)
  if (group.isArchived)
    throw new ApiError(400, `cannot create database on group ${group.name} because it is archived`)
  if (body.remote_encryption != null) throw notSupported('remote_encryption is not supported by this server')
  if (body.use_tursodb === true) throw notSupported('use_tursodb is not supported by this server')
  const configuration = { ...NEW_CONFIGURATION, sizeLimitBytes: parseSizeLimit(body.size_limit ?? '') }
  const { source, parent } = await readSource(call, body, group)
  try {
    // the name may have been taken while the source was read
    checkNameAvailable(call, body.name)
    const { organization, platform } = call
    const data = { database: body.name, group: group.name }
    return await databases.create({
      organization,
      group,
      name: body.name,
      source,
      configuration,
      readyDelayMs: platform.readyDelayMs,
      onReady: () =>
        call.addAuditEntry({ code: 'db-create', message: `created database ${body.name}`, data }),
      ...(parent !== undefined && { parent }),
    })
  } finally {
    if (source.type === 'dump') await rm(source.file, { force: true })
  }
}

/** Returns the requested group of a new database, or the group of the database that it copies. @throws ApiError */
function chooseGroup(call: Call, { group: name, group_id: id, seed }: NewDatabaseBody): GroupRow {
  const findGroup = (groupId: string | null | undefined): GroupRow => {
    const group = call
      .groups()
      .find((row) => (name == null || row.name === name) && (groupId == null || row.id === groupId))
    if (group === undefined) throw new ApiError(400, 'group not found')
    return group
  }
  if (name != null || id != null) return findGroup(id)
  if (seed?.type !== 'database') throw new ApiError(400, 'group is missing')
  return findGroup(findCopySource(call, seed).group)
}

/** Checks that a name is valid and available. @throws ApiError */
function checkNameAvailable(call: Call, name: string): void {
  const { organization, plane, platform } = call
  checkDatabaseName(name, organization.slug)
  if (plane.registry.findDatabase(organization.id, name) !== undefined)
    throw new ApiError(platform.takenNameStatus, `database with name ${name} already exists`)
  if (RESERVED_NAMES.has(name) || plane.addresses.isTaken(organization, name))
    throw new ApiError(422, `database name ${name} is not available`)
}

interface Source {
  readonly source: NewDatabase['source']
  readonly parent?: DatabaseRow
}

/** Returns the requested content of a new database. A dump is fetched, and its file is removed by the caller. @throws ApiError */
async function readSource(call: Call, body: NewDatabaseBody, group: GroupRow): Promise<Source> {
  const { seed, schema, is_schema: isSchema } = body
  const isChild = schema != null && schema !== ''
  if ([seed != null, isChild, isSchema === true].filter(Boolean).length > 1)
    throw new ApiError(400, 'seed, schema and is_schema cannot be combined')
  if (isSchema === true) return { source: { type: 'schema' } }
  if (isChild) {
    const parent = call.databaseByName(schema)
    if (!parent.isSchema) throw new ApiError(400, `database ${schema} is not a schema database`)
    if (parent.group !== group.id)
      throw new ApiError(400, 'a database and its schema must be in the same group')
    return { source: { type: 'schema-child', parent: parent.id } }
  }
  if (seed == null) return { source: { type: 'empty' } }
  if (seed.type === 'database') return readCopy(call, seed)
  if (seed.type === 'dump') {
    if (seed.url == null) throw new ApiError(400, 'seed.url is missing')
    const { organization, platform } = call
    return {
      source: { type: 'dump', file: await platform.dumps.take(organization.id, seed.url, platform.url()) },
    }
  }
  if (seed.type === 'database_upload')
    throw notSupported('seed.type database_upload is not supported by this server; upload a dump')
  throw new ApiError(400, `invalid seed.type: ${seed.type.slice(0, 40)}; expected database or dump`)
}

type Seed = NonNullable<NewDatabaseBody['seed']>

function findCopySource(call: Call, seed: Seed): DatabaseRow {
  const name = seed.name ?? seed.value
  if (name == null || name === '') throw new ApiError(400, 'seed.name is missing')
  return call.databaseByName(name)
}

/** Returns the content of a copy: the current state of the database, or the snapshot of the seed's time. @throws ApiError */
function readCopy(call: Call, seed: Seed): Source {
  const parent = findCopySource(call, seed)
  if (parent.isSchema) throw new ApiError(400, 'a schema database cannot be copied')
  if (seed.timestamp == null) return { source: { type: 'fork', from: parent.id }, parent }
  const { snapshots } = call.plane
  const time = Date.parse(seed.timestamp)
  const snapshot = snapshots.list(parent.id).find(({ createdAt }) => createdAt === time)
  if (snapshot === undefined)
    throw notSupported(
      'this server keeps only the current state and snapshots: seed.timestamp must be the exact time of a snapshot of the database',
    )
  return { source: { type: 'file', file: snapshots.getFile(snapshot) }, parent }
}

/** Deletes the database named in the path, and returns its name. */
export async function deleteDatabase(call: Call): Promise<string> {
  const row = call.database()
  const { databases } = call.plane
  databases.checkRemovable(row)
  const data = { database: row.name }
  await databases.recordRemoval([row], () =>
    call.commit({ code: 'db-delete', message: `deleted database ${row.name}`, data }, () =>
      databases.markDeleting(row),
    ),
  )
  await databases.finishRemoval(row)
  return row.name
}

const FORM_REQUIRED = 'a dump must be sent as the field `file` of a form'

/** Reads a form that contains a dump. @throws ApiError */
async function readForm({ body, headers }: Request, share: DumpShare): Promise<FormData> {
  const type = headers.get('content-type')
  if (body === null || type === null) throw new ApiError(400, FORM_REQUIRED)
  const limitedBody = limitBytes(body, MAX_DUMP_BYTES, share)
  return await new Response(limitedBody, { headers: { 'content-type': type } })
    .formData()
    .catch((error: unknown) => {
      throw error instanceof ApiError ? error : new ApiError(400, FORM_REQUIRED)
    })
}

async function uploadDump(call: Call) {
  const { dumps, url } = call.platform
  const share = dumps.createShare()
  try {
    const file = (await readForm(call.request.raw, share)).get('file')
    if (file === null || typeof file === 'string') throw new ApiError(400, FORM_REQUIRED)
    const path = await dumps.store(call.organization.id, new Uint8Array(await file.arrayBuffer()), share)
    return { dump_url: `${url()}${path}` }
  } catch (error) {
    share.release()
    throw error
  }
}

/** Checks that the group is not archived; individual databases are never archived. @throws ApiError if it is */
function wakeDatabase(call: Call): void {
  const { name, group } = call.database()
  if (call.plane.registry.groups.get(group)?.isArchived === true)
    throw new ApiError(400, `database ${name} is part of a group, please unarchive the group instead`)
}
