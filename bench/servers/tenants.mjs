// A local server with many databases, in a separate process, so that only the memory of the server is measured. It is controlled
// by messages.
import { performance } from 'node:perf_hooks'
import { startLocalServer } from '@batonsql/local-server'

const [backend, dataDirectory] = process.argv.slice(2)
const IN_FLIGHT = 16

const startedAt = performance.now()
const server = await startLocalServer({ backend, dataDirectory })
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

process.on('message', async ({ create, options }) => {
  if (create === undefined) {
    await server.close()
    process.exit()
  }
  process.send(await createAll(create, options))
})
process.send({ url: server.url, version: server.version, startMs })
