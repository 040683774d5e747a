import { channel } from 'node:diagnostics_channel'

const baton = channel('baton')

/** Whether this process has a listener on the channel `baton`. */
export const hasSubscribers = (): boolean => baton.hasSubscribers

/** Publishes an event to those who listen. */
export const publish = (event: unknown): void => baton.publish(event)
