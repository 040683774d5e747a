import { escapeHtml, htmlResponse, type ServiceResponse } from '@batonsql/server-common/http'

/** Parameters of the page that `turso auth login` opens in a browser. Its form leads to the port on which the command waits for a token. */
export interface LoginRequest {
  /** Port on which the command listens on this machine; null if it does not listen. */
  readonly port: number | null
  readonly state: string
}

/** Parses a query or a form. */
export function parseLogin(fields: URLSearchParams): LoginRequest {
  const port = Number(fields.get('port') ?? '')
  const isPort = Number.isInteger(port) && port > 0 && port < 65_536
  return { port: isPort ? port : null, state: fields.get('state') ?? '' }
}

/**
 * Returns a page that asks for an API token; opening the page does not log the user in.
 * @param problem why the token that was entered is rejected; null before one was entered
 */
export function loginPage({ port, state }: LoginRequest, problem: string | null): ServiceResponse {
  const form = `<form method="post" action="/">
<label>API token <input name="token" type="password" autocomplete="off" size="60" autofocus></label>
<input type="hidden" name="port" value="${port}"><input type="hidden" name="state" value="${escapeHtml(state)}">
<button>Log in</button>
</form>`
  const manual = '<p>Pass it to the CLI: <code>turso config set token TOKEN</code></p>'
  const text = `<h1>Baton platform API</h1>
<p>The server prints its owner's token on a terminal, or writes it to its token file.</p>
${problem === null ? '' : `<p role="alert">${escapeHtml(problem)}</p>`}
${port === null ? manual : form}`
  return htmlResponse(
    problem === null ? 200 : 401,
    'Baton platform API',
    text,
    "form-action 'self' http://localhost:*",
  )
}

/** Redirects the browser to the command, which listens on this machine only. */
export function loginRedirect({ port, state }: LoginRequest, token: string): ServiceResponse {
  const query = new URLSearchParams({ jwt: token, state })
  const headers = { location: `http://localhost:${port}/?${query.toString()}`, 'cache-control': 'no-store' }
  return { status: 303, headers, body: '' }
}
