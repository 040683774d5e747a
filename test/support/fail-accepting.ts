import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Server, Socket } from 'node:net'

const CHANNEL = 'net.server.socket'

/** Makes the server that accepts the next connection of this process fail to accept two more, as if too many files were open. */
export function failAccepting(): void {
  const onSocket = (message: unknown): void => {
    unsubscribe(CHANNEL, onSocket)
    const { server } = (message as { readonly socket: Socket & { readonly server: Server } }).socket
    for (let count = 0; count < 2; count += 1) server.emit('error', new Error('accept EMFILE'))
  }
  subscribe(CHANNEL, onSocket)
}
