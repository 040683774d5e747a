import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'

// A server that reads the file of its own lock on request.
const [directory = ''] = process.argv.slice(2)
const server = await startLocalServer({ dataDirectory: directory })
console.log(server.url)
process.stdin.on('data', () => {
  void readFile(join(directory, 'baton.lock.db')).then(() => console.log('read'))
})
