// The local server in front of a libsql-server, in a process of its own.
import { startLocalServer } from '@batonsql/local-server'

const server = await startLocalServer({ backend: 'sqld' })
process.on('message', (message) => {
  if (message === 'cpu') process.send?.(process.cpuUsage())
  else void server.close().then(() => process.exit())
})
process.send?.(Number(new URL(server.url).port))
