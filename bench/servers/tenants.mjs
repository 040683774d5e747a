// A local server with many databases, in a separate process, so that only the memory of the server is measured. It is controlled
// by messages.
import { performance } from 'node:perf_hooks'
import { startLocalServer } from '@batonsql/local-server'
import { createPlatformClient } from '@batonsql/platform'

const [backend, dataDirectory] = process.argv.slice(2)
const IN_FLIGHT = 16

const startedAt = performance.now()
const server = await startLocalServer({ backend, dataDirectory, auth: false, platform: {} })
const startMs = performance.now() - startedAt

async function createAll(names, options) {
  const startedAt = performance.now()
  const queue = names.values()
  const worker = async () => {
    for (const name of queue) await server.createDatabase(name, options)
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
  return performance.now() - startedAt
}

/** Creates databases through the platform API, because only it has groups. They are distributed over the groups in turn. */
async function createInGroups(names, groups) {
  const { url, token, organization } = server.platform
  const platform = createPlatformClient({ url, token, organization })
  for (const group of groups) await platform.groups.create({ name: group, location: 'local' })
  const startedAt = performance.now()
  const queue = names.entries()
  const worker = async () => {
    for (const [index, name] of queue)
      await platform.databases.create({ name, group: groups[index % groups.length] })
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
  return performance.now() - startedAt
}

process.on('message', async ({ create, options, groups }) => {
  if (create === undefined) {
    await server.close()
    process.exit()
  }
  process.send(await (groups === undefined ? createAll(create, options) : createInGroups(create, groups)))
})
process.send({ url: server.url, version: server.version, startMs })
