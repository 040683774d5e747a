// Prints a session of the vendor's CLI with a local server: npm run session [-- --backend sqld]
import { parseArgs } from 'node:util'
import { startLocalServer } from '@batonsql/local-server'
import { replaySession } from './recorded-session.ts'

const { values } = parseArgs({ options: { backend: { type: 'string', default: 'embedded' } } })
const { backend } = values
if (backend !== 'embedded' && backend !== 'sqld')
  throw new TypeError(`--backend must be embedded or sqld, not ${backend}`)
const server = await startLocalServer({ backend, platform: {} })
try {
  if (server.platform === null) throw new Error('the server has no platform API')
  process.stdout.write(await replaySession(server.platform))
} finally {
  await server.close()
}
