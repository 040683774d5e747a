import { hostName } from './access-policy.ts'
import type { ServiceRequest, ServiceResponse } from './exchange.ts'

/** For people who open the server's address in a browser. Says nothing about databases: it is shown without a token. */
export function welcomePage(version: string, request: ServiceRequest): ServiceResponse {
  const url = hostName(request) === null ? 'this address' : `http://${String(request.headers['host'])}`
  const body = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Baton local server</title>
<h1>Baton local server</h1>
<p>${escapeHtml(version)}</p>
<p>This is a database server; its clients are programs. Give one of them this URL:</p>
<pre>DATABASE_URL=${escapeHtml(url)}</pre>
<p>Other databases are at <code>${escapeHtml(url)}/NAME/</code>. <a href="/version">/version</a> and
<a href="/health">/health</a> answer without a token.</p>
</html>
`
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
  }
  return { status: 200, headers, body }
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
