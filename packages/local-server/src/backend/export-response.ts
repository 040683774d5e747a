import { open } from 'node:fs/promises'
import {
  errorResponse,
  type ServiceRequest,
  type ServiceResponse,
  textResponse,
} from '../http/service-request.ts'
import type { DatabaseId } from './backend.ts'

/** A file with all of a database in it, for the caller alone. */
export interface ExportedFile {
  readonly path: string
  readonly remove: () => Promise<void>
}

/** A file is always the newest here, and has no frames to be added to it. */
const GENERATION = 1

/** So many files of one database are made or sent at once: each takes its size on the disk until its client has it. */
const MAX_AT_ONCE = 4

/** How many exports of each database are under way. */
export type RunningExports = Map<DatabaseId, number>

/** Answers a route by which a database is fetched as a file; `make` writes the database to a new file. */
export async function answerExport(
  { method, path, signal }: Pick<ServiceRequest, 'method' | 'path' | 'signal'>,
  id: DatabaseId,
  running: RunningExports,
  make: () => Promise<ExportedFile>,
): Promise<ServiceResponse> {
  if (path !== '/info' && path !== `/export/${GENERATION}`)
    return errorResponse(404, 'there is nothing newer than the file')
  // a client that only looks whether it is there
  if (method === 'HEAD') return textResponse(200, 'application/octet-stream', '')
  if (path === '/info')
    return textResponse(200, 'application/json', JSON.stringify({ current_generation: GENERATION }))
  const count = running.get(id) ?? 0
  if (count >= MAX_AT_ONCE)
    return errorResponse(
      503,
      `${MAX_AT_ONCE} exports of this database are under way; try again when one is done`,
    )
  running.set(id, count + 1)
  const end = (): void => {
    const left = (running.get(id) ?? 1) - 1
    if (left > 0) running.set(id, left)
    else running.delete(id)
  }
  try {
    return await answerWith(await make(), signal, end)
  } catch (error) {
    end()
    throw error
  }
}

/** @param end called when the file is gone, unless this rejects */
async function answerWith(
  made: ExportedFile,
  signal: AbortSignal,
  end: () => void,
): Promise<ServiceResponse> {
  try {
    const file = await open(made.path)
    const { size } = await file.stat()
    const body = file.createReadStream()
    const leave = (): unknown => body.destroy()
    body.once('close', () => {
      signal.removeEventListener('abort', leave)
      void made.remove() // again, where an open file cannot be removed
      end()
    })
    signal.addEventListener('abort', leave, { once: true })
    if (signal.aborted) leave()
    // it is there as long as it is open
    await made.remove().catch(() => {})
    const headers = { 'content-type': 'application/octet-stream', 'content-length': String(size) }
    return { status: 200, headers, body }
  } catch (error) {
    await made.remove()
    throw error
  }
}
