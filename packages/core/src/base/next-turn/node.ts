import { setImmediate } from 'node:timers'

/**
 * Calls back in the next turn of the event loop. Does not use the global function, because the fake timers of a user's tests
 * replace it and calls would wait until the test advances them.
 */
export const inNextTurn = (callback: () => void): void => void setImmediate(callback)
