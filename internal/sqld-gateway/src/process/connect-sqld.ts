import type { RemoteSqldOptions } from '@batonsql/server-common/backend'
import { SqldAdmin } from './admin.ts'

/** A libsql-server that receives requests. */
export interface SqldTarget {
  readonly url: string
  readonly host: string
  readonly port: number
  /** The version as the program reports it. */
  readonly version: string
  readonly admin: SqldAdmin
  readonly isRunning: boolean
  close(): Promise<void>
}

/** Returns a server that is already running. Rejects with the reason if it does not respond, or does not accept the key. */
export async function connectSqld({ url, adminUrl, adminKey }: RemoteSqldOptions): Promise<SqldTarget> {
  const data = parseAddress('url', url)
  const control = parseAddress('adminUrl', adminUrl)
  const admin = new SqldAdmin(control, adminKey)
  const problem = `no libsql-server responds at ${url}`
  const response = await fetch(new URL('/version', url), { signal: AbortSignal.timeout(10_000) }).catch(
    (error: unknown) => {
      throw new Error(problem, { cause: error })
    },
  )
  const version = (await response.text()).trim()
  if (!version.startsWith('sqld ')) throw new Error(problem)
  if (!(await admin.isReady())) throw new Error(`no admin API at ${adminUrl} accepts the given key`)
  // a remote server is never stopped
  return { url: new URL(url).origin, ...data, version, admin, isRunning: true, close: async () => {} }
}

function parseAddress(name: string, text: string): { readonly host: string; readonly port: number } {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url?.protocol !== 'http:' || url.pathname !== '/')
    throw new TypeError(`sqld.${name} must have the form http://HOST:PORT`)
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || '80') }
}
