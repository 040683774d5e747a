import {
  escapeHtml,
  htmlResponse,
  type ServiceRequest,
  type ServiceResponse,
} from '@batonsql/server-common/http'

/** Returns a page for browsers. It does not name databases, because it is shown without a token. */
export function welcomePage(
  version: string,
  { headers }: ServiceRequest,
  hasInspector: boolean,
): ServiceResponse {
  const scheme = /^https\b/i.test(String(headers['x-forwarded-proto'])) ? 'https' : 'http'
  const url = escapeHtml(`${scheme}://${String(headers['host'])}`)
  const content = `<h1>Baton local server</h1>
<p>${escapeHtml(version)}</p>
<p>This is a database server for programs. To connect one to the database of this host, give it this URL:</p>
<pre>DATABASE_URL=${url}</pre>
<p>The database NAME has the URL <code>${url}/NAME/</code>. <a href="/version">/version</a> and
<a href="/health">/health</a> need no token.</p>${hasInspector ? '\n<p><a href="/_baton">/_baton</a> shows live requests, on this machine only.</p>' : ''}`
  // it has no forms
  return htmlResponse(200, 'Baton local server', content, "form-action 'none'")
}
