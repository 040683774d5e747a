import { connect } from 'node:net'

const QUIET_MS = 250

/** Sends raw bytes and returns everything received until the server closes the connection or sends nothing for a while. */
export async function sendRaw(port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let received = ''
  await new Promise<void>((resolve) => {
    let timer: NodeJS.Timeout | undefined
    const waitOn = (ms: number): void => {
      clearTimeout(timer)
      timer = setTimeout(resolve, ms)
    }
    // wait longer for the first byte
    waitOn(QUIET_MS * 8)
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
      waitOn(QUIET_MS)
    })
    socket.on('error', () => {}) // a reset also counts as a response
    socket.on('close', () => {
      clearTimeout(timer)
      resolve()
    })
    socket.write(bytes)
  })
  socket.destroy()
  return received
}

/** Returns the status of each response in the received bytes, except interim responses. */
export function statuses(received: string): number[] {
  return [...received.matchAll(/HTTP\/1\.1 ([2-5]\d\d) /g)].map(([, status]) => Number(status))
}
