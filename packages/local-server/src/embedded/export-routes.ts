import { createReadStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errorResponse, type ServiceResponse, textResponse } from '../exchange.ts'

/** A file is always the newest here, and has no frames to be added to it. */
const GENERATION = 1

/** Whether a path is one of those by which a database is fetched as a file. */
export function isExportRoute(path: string): boolean {
  return /^\/(?:info|export\/\d+|sync\/\d+\/\d+\/\d+)$/.test(path)
}

/** Answers such a route; `exportTo` writes the database to a new file. */
export async function answerExport(
  path: string,
  exportTo: (file: string) => Promise<void>,
): Promise<ServiceResponse> {
  if (path === '/info')
    return textResponse(200, 'application/json', JSON.stringify({ current_generation: GENERATION }))
  if (path !== `/export/${GENERATION}`) return errorResponse(404, 'there is nothing newer than the file')
  const folder = await mkdtemp(join(tmpdir(), 'baton-export-'))
  const clear = (): Promise<void> => rm(folder, { recursive: true, force: true })
  try {
    const file = join(folder, 'data.db')
    await exportTo(file)
    const { size } = await stat(file)
    const body = createReadStream(file)
    body.once('close', () => void clear())
    const headers = { 'content-type': 'application/octet-stream', 'content-length': String(size) }
    return { status: 200, headers, body }
  } catch (error) {
    await clear()
    throw error
  }
}
