import { channel as openChannel } from 'node:diagnostics_channel'

/** The channel on which a process can receive the events of all clients. */
export const channel = openChannel('baton')

export const warn = (message: string): void => process.emitWarning(message)
