import { getHostName } from '@batonsql/server-common/auth'
import {
  escapeHtml,
  htmlResponse,
  type ServiceRequest,
  type ServiceResponse,
} from '@batonsql/server-common/http'

/** Returns a page for browsers. It does not name databases, because it is shown without a token. */
export function welcomePage(
  version: string,
  request: ServiceRequest,
  hasInspector: boolean,
): ServiceResponse {
  const url = getHostName(request) === null ? 'this address' : `http://${String(request.headers['host'])}`
  const content = `<h1>Baton local server</h1>
<p>${escapeHtml(version)}</p>
<p>This is a database server for programs. To connect one, give it this URL:</p>
<pre>DATABASE_URL=${escapeHtml(url)}</pre>
<p>Other databases have the URLs <code>${escapeHtml(url)}/NAME/</code>. <a href="/version">/version</a> and
<a href="/health">/health</a> need no token.</p>${hasInspector ? '\n<p><a href="/_baton">/_baton</a> shows live requests, on this machine only.</p>' : ''}`
  return htmlResponse(200, 'Baton local server', content, "form-action 'none'")
}
