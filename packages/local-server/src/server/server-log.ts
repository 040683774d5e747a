import type { Server } from 'node:http'

/** Log levels: nothing; failed and rejected requests, starts and stops; or these and all other requests. */
export const LOG_LEVELS = ['none', 'errors', 'requests'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/**
 * Logs one line of JSON to stderr for each event, with `time`, `level` (`info`, `warn`, `error`) and `event`. A request is
 * logged when its response has been sent, without query, headers and body, so that no token is logged.
 */
export class ServerLog {
  readonly #level: LogLevel
  readonly #print: (line: string) => void

  /** @param print receives the lines; by default, stderr */
  constructor(level: LogLevel, print = (line: string): void => console.error(line)) {
    this.#level = level
    this.#print = print
  }

  get isEnabled(): boolean {
    return this.#level !== 'none'
  }

  write(level: 'info' | 'warn' | 'error', event: string, fields: object): void {
    if (this.isEnabled)
      this.#print(JSON.stringify({ time: new Date().toISOString(), level, event, ...fields }))
  }

  /** Logs the requests of a server. @param listener name of the server in the log */
  watch(server: Server, listener: 'databases' | 'platform'): void {
    if (!this.isEnabled) return
    server.on('request', (incoming, outgoing) => {
      const startedAt = performance.now()
      outgoing.once('close', () => {
        const { statusCode: status } = outgoing
        const level = getLevel(status)
        if (level === 'info' && this.#level === 'errors') return
        this.write(level, 'request', {
          listener,
          method: incoming.method,
          host: incoming.headers.host,
          path: getPath(incoming.url ?? '/'),
          status,
          durationMs: Math.round((performance.now() - startedAt) * 10) / 10,
          remoteAddress: incoming.socket.remoteAddress,
          ...(!outgoing.writableFinished && { isCutOff: true }),
        })
      })
    })
  }
}

function getLevel(status: number): 'info' | 'warn' | 'error' {
  if (status >= 500) return 'error'
  return status === 401 || status === 403 ? 'warn' : 'info'
}

/** Returns the path of a request target, without its query and its origin, which may contain a password. */
function getPath(target: string): string {
  return target.replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '') || '/'
}
