import type { DatabaseId } from '@batonsql/server-common/backend'
import { errorResponse, type ServiceResponse, textResponse } from '@batonsql/server-common/http'
import type { SchemaStore } from './schema-store.ts'

/** Schema version of libsql-server's job database, which its responses contain. */
const SCHEMA_VERSION = 4
const JOB_PATH = /^\/v1\/jobs\/(.*)$/
const MAX_JOB_NUMBER = 2n ** 64n - 1n

/** Responds to `/v1/jobs` and `/v1/jobs/<number>` of a database. */
export function jobResponse(store: SchemaStore, id: DatabaseId, path: string): ServiceResponse {
  if (store.getRole(id) !== 'schema') return errorResponse(400, 'Invalid namespace')
  const jobs = store.getJobs(id)
  const text = JOB_PATH.exec(path)?.[1]
  if (text === undefined) {
    const migrations = jobs.map(({ number, status }) => ({ job_id: number, status }))
    return jsonResponse({ schema_version: SCHEMA_VERSION, migrations })
  }
  const requested = /^\d+$/.test(text) ? BigInt(text) : null
  if (requested === null || requested > MAX_JOB_NUMBER)
    return textResponse(
      400,
      'text/plain; charset=utf-8',
      `Invalid URL: Cannot parse \`"${text}"\` to a \`u64\``,
    )
  const job = jobs.find(({ number }) => BigInt(number) === requested)
  if (job === undefined) return errorResponse(404, "couldn't find requested migration job")
  return jsonResponse({
    job_id: job.number,
    status: job.status,
    error: job.error,
    progress: job.tasks.map(({ database, status, error }) => ({ namespace: database, status, error })),
  })
}

function jsonResponse(body: object): ServiceResponse {
  return textResponse(200, 'application/json', JSON.stringify(body))
}
