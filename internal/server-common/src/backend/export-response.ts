import { open } from 'node:fs/promises'
import {
  errorResponse,
  type ServiceRequest,
  type ServiceResponse,
  textResponse,
} from '../http/service-request.ts'
import type { DatabaseId } from './backend.ts'

/** A complete copy of a database in a file, owned by the caller. */
export interface ExportedFile {
  readonly path: string
  readonly remove: () => Promise<void>
}

/** Generation that clients see. It never changes, because every export is a complete file without later frames. */
const GENERATION = 1

/** Maximum number of concurrent exports of a database; each takes disk space until its client has received it. */
const MAX_CONCURRENT_EXPORTS = 4

export type RunningExports = Map<DatabaseId, number>

/** Whether a path is that of a route that exports a database as a file. */
export function isExportRoute(path: string): boolean {
  return /^\/(?:info|export\/\d+|sync\/\d+\/\d+\/\d+)$/.test(path)
}

/** Handles a request to such a route. @param createFile writes the database to a new file */
export async function buildExportResponse(
  { method, path, controller }: Pick<ServiceRequest, 'method' | 'path' | 'controller'>,
  id: DatabaseId,
  running: RunningExports,
  createFile: () => Promise<ExportedFile>,
): Promise<ServiceResponse> {
  if (path !== '/info' && path !== `/export/${GENERATION}`)
    return errorResponse(404, 'nothing newer than the exported file')
  // the client only checks whether the export exists
  if (method === 'HEAD') return textResponse(200, 'application/octet-stream', '')
  if (path === '/info')
    return textResponse(200, 'application/json', JSON.stringify({ current_generation: GENERATION }))
  const count = running.get(id) ?? 0
  if (count >= MAX_CONCURRENT_EXPORTS)
    return errorResponse(
      503,
      `${MAX_CONCURRENT_EXPORTS} exports of this database are already running; try again when one has finished`,
    )
  running.set(id, count + 1)
  const onClose = (): void => {
    const remaining = (running.get(id) ?? 1) - 1
    if (remaining > 0) running.set(id, remaining)
    else running.delete(id)
  }
  try {
    return await buildFileResponse(await createFile(), controller.signal, onClose)
  } catch (error) {
    onClose()
    throw error
  }
}

/** Returns the response with the file. @param onClose called when the body is closed; not called if this rejects */
async function buildFileResponse(
  file: ExportedFile,
  signal: AbortSignal,
  onClose: () => void,
): Promise<ServiceResponse> {
  try {
    const handle = await open(file.path)
    const { size } = await handle.stat()
    const body = handle.createReadStream()
    body.once('close', () => {
      file.remove().catch(() => {}) // again, if the open file could not be removed
      onClose()
    })
    signal.addEventListener('abort', () => body.destroy(), { once: true })
    if (signal.aborted) body.destroy()
    // the data stays readable until the file is closed
    await file.remove().catch(() => {})
    const headers = { 'content-type': 'application/octet-stream', 'content-length': String(size) }
    return { status: 200, headers, body }
  } catch (error) {
    await file.remove()
    throw error
  }
}
