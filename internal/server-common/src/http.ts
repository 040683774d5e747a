export { toResponse } from './http/fetch-response.ts'
export { escapeHtml, htmlResponse } from './http/html.ts'
export { listen, urlOf } from './http/listen.ts'
export {
  BodyTooLargeError,
  errorResponse,
  readBytes,
  type ServiceRequest,
  type ServiceResponse,
  textResponse,
} from './http/service-request.ts'
