import { realpathSync } from 'node:fs'
import { request } from 'node:http'
import { json } from 'node:stream/consumers'
import type { CommandContext } from '../command-context.ts'
import { readPort } from '../read-port.ts'
import type { ControlRequest } from './control-server.ts'
import { findRuntimeDirectory, getLinkPath, getSocketPath, MAX_SOCKET_PATH_BYTES } from './socket-path.ts'

/** No `baton dev` of this user uses the port or the data directory. */
export class NotRunningError extends Error {}

/** Options that choose a running server of this machine. */
export interface ServerValues {
  readonly port?: string | undefined
  readonly data?: string | undefined
}

/**
 * Sends a command to a running `baton dev` of this user and machine: the one that uses the directory `data`, or the one on `port`.
 * @throws NotRunningError if there is none; Error with the server's error
 */
export async function control<Result>(
  { data, port: portText }: ServerValues,
  command: ControlRequest,
  { env, signal }: CommandContext,
): Promise<Result> {
  const port = readPort('--port', portText ?? '8080')
  const description = data === undefined ? `on port ${port} of this machine` : `in ${data}`
  const problem = `no \`baton dev\` of this user is running ${description}`
  let response: ControlResponse
  try {
    response = await send(findSocket(data, port, env), command, signal)
  } catch (error) {
    if (['ENOENT', 'ECONNREFUSED', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw new NotRunningError(problem, { cause: error })
    throw error
  }
  if (response.error !== undefined) throw new Error(response.error)
  return response.result as Result
}

/** Returns the path of a server's socket: in its data directory, or behind the link of its port. @throws Error if the path is too long */
function findSocket(data: string | undefined, port: number, env: CommandContext['env']): string {
  if (data === undefined) return getSocketPath(getLinkPath(findRuntimeDirectory(env), port))
  const path = getSocketPath(realpathSync(data))
  if (Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES) return path
  throw new Error(`the path of ${data} is too long for a socket; use --port instead of --data`)
}

interface ControlResponse {
  readonly result?: unknown
  readonly error?: string
}

function send(socket: string, command: ControlRequest, signal: AbortSignal): Promise<ControlResponse> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ socketPath: socket, method: 'POST', path: '/', signal, agent: false })
    outgoing.once('error', reject)
    outgoing.once('response', (response) => resolve(json(response) as Promise<ControlResponse>))
    outgoing.end(JSON.stringify(command))
  })
}
