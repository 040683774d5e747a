import { Readable } from 'node:stream'
import type { ServiceRequest } from '@batonsql/server-common/http'

/** Creates a request as the HTTP server passes it to a back end: a pipeline without a token, except for the given fields. */
export const serviceRequest = (
  body: string | object,
  fields: Partial<ServiceRequest> = {},
): ServiceRequest => ({
  method: 'POST',
  path: '/v3/pipeline',
  query: '',
  headers: {},
  body: Readable.from([Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))]),
  remoteAddress: undefined,
  controller: new AbortController(),
  ...fields,
})
