import { createClient } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'

/** Empties a database that is shared by all tests. */
export async function dropEverything(url: string, authToken: string | undefined): Promise<void> {
  await using db = createClient({ url, authToken })
  const { rows } = await db.execute<{ type: string; name: string }>(
    "select type, name from sqlite_schema where type in ('table', 'view') and name not like 'sqlite\\_%' escape '\\' and name not in ('libsql_vector_meta_shadow', 'libsql_wasm_func_table') and name not like '\\_\\_turso\\_internal\\_%' escape '\\'",
  )
  const stream = openStream(db)
  await stream.execute('pragma foreign_keys = off')
  for (const { type, name } of rows)
    await stream.execute(`drop ${type} if exists "${name.replaceAll('"', '""')}"`)
  await stream.close()
}
