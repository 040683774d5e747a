import { type ChildProcess, fork } from 'node:child_process'
import { generateKeyPairSync, sign } from 'node:crypto'
import { once } from 'node:events'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'

/** A running server. */
export interface OpenServer extends AsyncDisposable {
  readonly url: string
}

/**
 * Without checkpoints, as behind the gateway: with 64 writers, a checkpoint can make the server lose a writer and stop responding
 * to writes (docs/self-hosting.md).
 */
const SQLD_OPTIONS = { namespaces: false, serverArguments: ['--checkpoint-interval-s', '1000000000'] }

export async function openSqld(): Promise<OpenServer> {
  const sqld = await startSqld(SQLD_OPTIONS)
  return { url: sqld.url, [Symbol.asyncDispose]: () => sqld.close() }
}

/** Starts a libsql-server that verifies tokens, which takes about a tenth of a millisecond per request. */
export async function openAuthenticatedSqld(): Promise<OpenServer & { readonly token: string }> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const sqld = await startSqld({
    ...SQLD_OPTIONS,
    publicKeyPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  })
  const encoded = [{ alg: 'EdDSA', typ: 'JWT' }, { a: 'rw' }].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  )
  const signature = sign(null, Buffer.from(encoded.join('.')), privateKey).toString('base64url')
  return {
    url: sqld.url,
    token: [...encoded, signature].join('.'),
    [Symbol.asyncDispose]: () => sqld.close(),
  }
}

/** Starts the embedded server. */
export async function openEmbedded(): Promise<OpenServer> {
  const server = await startLocalServer()
  return { url: server.url, [Symbol.asyncDispose]: () => server.close() }
}

export interface ChildServer extends OpenServer {
  readonly process: ChildProcess
  /** The access token; undefined if the server needs none. */
  readonly token?: string | undefined
}

/** Starts a server from this folder in its own process. It imports the built packages; `npm run bench` builds them first. */
export async function openChild(file: string, ...args: readonly string[]): Promise<ChildServer> {
  const child = fork(new URL(`${file}.ts`, import.meta.url), args, {
    execArgv: ['--no-warnings'],
  })
  const [{ port, token }] = (await once(child, 'message')) as [{ port: number; token?: string }]
  const close = async (): Promise<void> => {
    child.send('end')
    await once(child, 'exit')
  }
  return { url: `http://127.0.0.1:${port}`, process: child, token, [Symbol.asyncDispose]: close }
}
