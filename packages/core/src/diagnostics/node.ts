import { channel } from 'node:diagnostics_channel'

const baton = channel('baton')

/** Whether somebody in this process listens to the channel `baton`. */
export const hasSubscribers = (): boolean => baton.hasSubscribers

/** Tells those who listen. */
export const publish = (event: unknown): void => baton.publish(event)
