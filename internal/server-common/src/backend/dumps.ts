import { readFile } from 'node:fs/promises'
import { BackendRejection } from './backend.ts'

/** Reads the statements of a dump. @throws BackendRejection if it is empty */
export async function readDump(file: string): Promise<string> {
  const sql = await readFile(file, 'utf8')
  if (sql.trim() === '') throw new BackendRejection('the dump is empty')
  return sql
}

/** Checks the response to a pipeline that executed a dump. @throws BackendRejection with the error */
export function checkLoaded(status: number, body: string): void {
  if (status !== 200) throw new BackendRejection(`the dump could not be loaded: ${body}`)
  checkResult((JSON.parse(body) as { results: readonly LoadResult[] }).results)
}

/** Like {@link checkLoaded}, for decoded results. */
export function checkResult([result]: readonly LoadResult[]): void {
  if (result?.type !== 'ok')
    throw new BackendRejection(`the dump could not be loaded: ${result?.error.message ?? 'not executed'}`)
}

export type LoadResult =
  | { readonly type: 'ok' }
  | { readonly type: 'error'; readonly error: { readonly message: string } }
