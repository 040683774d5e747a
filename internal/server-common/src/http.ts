export { BodyTooLargeError, type BodyWatcher, readBytes, StreamedBody, watchBody } from './http/body.ts'
export { fromRequest, toResponse } from './http/fetch-api.ts'
export { escapeHtml, htmlResponse } from './http/html.ts'
export { getLocalUrl, listen } from './http/listen.ts'
export {
  errorResponse,
  type ServiceRequest,
  type ServiceResponse,
  textResponse,
} from './http/service-request.ts'
