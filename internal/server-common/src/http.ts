// Requests and responses that depend on no framework, and the HTTP server that receives them.
export { createPartSearch, readBytes, watchBody } from './http/body.ts'
export { fromRequest, toResponse } from './http/fetch-api.ts'
export { escapeHtml, htmlResponse } from './http/html.ts'
export { createHttpServer } from './http/http-server.ts'
export { getLocalUrl, listen } from './http/listen.ts'
export { BodyError, holdMoreMemory, releaseBodyMemory } from './http/request-body.ts'
export {
  errorResponse,
  LOST_CONNECTION,
  type ServiceRequest,
  type ServiceResponse,
  textResponse,
} from './http/service-request.ts'
export { type BodyWatcher, StreamedBody } from './http/streamed-body.ts'
