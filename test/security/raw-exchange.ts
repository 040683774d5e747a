import { connect } from 'node:net'

/** How long to wait for a response. */
const RESPONSE_TIMEOUT_MS = 60_000
/** How long to wait for further responses after the expected ones. */
const FURTHER_RESPONSE_TIMEOUT_MS = 250

/**
 * Sends raw bytes and returns everything received until the server closes the connection, or sends nothing for a while after the
 * expected number of responses.
 */
export async function sendRaw(port: number, bytes: string, expected = 1): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let received = ''
  await new Promise<void>((resolve) => {
    let timer = setTimeout(resolve, RESPONSE_TIMEOUT_MS)
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
      clearTimeout(timer)
      timer = setTimeout(
        resolve,
        statuses(received).length < expected ? RESPONSE_TIMEOUT_MS : FURTHER_RESPONSE_TIMEOUT_MS,
      )
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
