import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../src/base/clock.ts'
import { PlatformClient } from '../src/platform/platform-client.ts'
import { type PlatformConfig, resolvePlatformConfig } from '../src/platform/platform-config.ts'
import { cleanUp } from './scripted-server.ts'

/** A request as it arrived. */
export interface PlatformRequest {
  readonly method: string
  /** With its query, encoded as it was sent. */
  readonly url: string
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
}

/** What is answered: JSON of `body`, or `text`. `drop` closes the connection instead; `hang` never answers. */
export interface PlatformAnswer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly text?: string
  readonly drop?: boolean
  readonly hang?: boolean
}

export type PlatformScript = (request: PlatformRequest, count: number) => PlatformAnswer

export const TOKEN = 'platform-token'

/** A client of a platform API that answers as a test says. */
export async function scriptedPlatform(
  script: PlatformScript,
  config: Partial<PlatformConfig> = {},
  clock?: Clock,
): Promise<{ platform: PlatformClient; received: PlatformRequest[]; url: string }> {
  const received: PlatformRequest[] = []
  const server = http.createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      const entry = { method, url, headers, body }
      const answer = script(entry, received.push(entry))
      if (answer.hang) return
      if (answer.drop) {
        request.socket.destroy()
        return
      }
      response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers })
      response.end(answer.text ?? (answer.body === undefined ? '' : JSON.stringify(answer.body)))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanUp.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const resolved = resolvePlatformConfig({ organization: 'acme', token: TOKEN, baseUrl: url, ...config })
  return { platform: new PlatformClient(resolved, clock), received, url }
}

/** A JWT that nobody signed. */
export function unsignedJwt(claims: object): string {
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${encode({ alg: 'EdDSA', typ: 'JWT' })}.${encode(claims)}.c2lnbmF0dXJl`
}
