import { DirectoryLock } from '@batonsql/server-common/base'

// prints `ready`, waits for a line, tries to acquire the lock, prints the outcome, and holds the lock until its input ends
const [directory = '', afterAcquiring] = process.argv.slice(2)
const lines = process.stdin[Symbol.asyncIterator]()
console.log('ready')
await lines.next()
try {
  await DirectoryLock.acquire(directory)
  console.log('acquired')
  if (afterAcquiring === 'die') process.kill(process.pid, 'SIGKILL')
} catch (error) {
  console.log(error instanceof Error ? error.message : String(error))
}
await lines.next()
