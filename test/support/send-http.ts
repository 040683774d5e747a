import { once } from 'node:events'
import http from 'node:http'
import { text } from 'node:stream/consumers'

/** Sends a request with node:http: unlike `fetch`, it normalizes no path, and accepts headers that are reserved for browsers. */
export async function sendHttp(
  url: string,
  { body = '', ...options }: http.RequestOptions & { readonly body?: string } = {},
): Promise<{ readonly status: number; readonly headers: http.IncomingHttpHeaders; readonly text: string }> {
  const request = http.request(url, { ...options, agent: false })
  // a server that responds early may then reset the connection
  request.on('error', () => {})
  request.end(body)
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  return { status: response.statusCode ?? 0, headers: response.headers, text: await text(response) }
}
