// The local server in front of a libsql-server that it starts. Runs in a separate process.
import { startLocalServer } from '@batonsql/local-server'

const server = await startLocalServer({ backend: 'sqld', auth: true })
process.on('message', (message) => {
  if (message === 'cpu') process.send?.(process.cpuUsage())
  else void server.close().then(() => process.exit())
})
const token = await server.createToken('default')
process.send?.({ port: Number(new URL(server.url).port), token })
