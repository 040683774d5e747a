// Serves a data directory with a schema database and its children until it is killed:
// `node schema-server.ts <directory> <back end>`.
import { startLocalServer } from '@batonsql/local-server'

const CHILD_COUNT = 6

const [dataDirectory, backend] = process.argv.slice(2) as [string, 'embedded' | 'sqld']
const server = await startLocalServer({ dataDirectory, backend })
if (!server.databaseNames.includes('parent')) {
  await server.createDatabase('parent', { isSchema: true })
  await server.createDatabase('other')
  for (let index = 0; index < CHILD_COUNT; index += 1)
    await server.createDatabase(`kid-${index}`, { schema: 'parent' })
}
process.send?.({ url: server.url, names: server.databaseNames })
