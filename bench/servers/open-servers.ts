import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'

/** A server that is ready. */
export interface OpenServer extends AsyncDisposable {
  readonly url: string
}

export async function openSqld(): Promise<OpenServer> {
  const sqld = await startSqld({ namespaces: false })
  return { url: sqld.url, [Symbol.asyncDispose]: () => sqld.close() }
}

/** The embedded server, which has its engine in a process and threads of its own. */
export async function openEmbedded(): Promise<OpenServer> {
  const server = await startLocalServer()
  return { url: server.url, [Symbol.asyncDispose]: () => server.close() }
}

export interface ChildServer extends OpenServer {
  readonly process: ChildProcess
}

/** A server of this folder in a process of its own. */
export async function openChild(file: string, ...args: readonly string[]): Promise<ChildServer> {
  const child = fork(new URL(`${file}.ts`, import.meta.url), args, {
    execArgv: ['--conditions=@batonsql/source', '--no-warnings'],
  })
  const [port] = (await once(child, 'message')) as [number]
  const end = async (): Promise<void> => {
    child.send('end')
    await once(child, 'exit')
  }
  return { url: `http://127.0.0.1:${port}`, process: child, [Symbol.asyncDispose]: end }
}
