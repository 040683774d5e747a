import { channel as openChannel } from 'node:diagnostics_channel'

/** Where a process can listen to the events of all clients. */
export const channel = openChannel('baton')
