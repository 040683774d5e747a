import { readFile } from 'node:fs/promises'
import { BackendRefusal } from './backend.ts'

/** The statements of a dump. @throws BackendRefusal when there are none */
export async function readDump(file: string): Promise<string> {
  const sql = await readFile(file, 'utf8')
  if (sql.trim() === '') throw new BackendRefusal('the dump is empty')
  return sql
}

/** Looks at the answer to a pipeline that has run a dump first. @throws BackendRefusal with what went wrong */
export function checkLoaded(status: number, body: string): void {
  if (status !== 200) throw new BackendRefusal(`the dump could not be loaded: ${body}`)
  checkResult((JSON.parse(body) as { results: readonly LoadResult[] }).results)
}

/** The same for the results alone. */
export function checkResult([result]: readonly LoadResult[]): void {
  if (result?.type !== 'ok')
    throw new BackendRefusal(`the dump could not be loaded: ${result?.error.message ?? 'it was not run'}`)
}

export type LoadResult =
  | { readonly type: 'ok' }
  | { readonly type: 'error'; readonly error: { readonly message: string } }
