/** The functions as they are when this module is imported: fake timers that a user's test installs later do not matter. */
const { setImmediate, setTimeout } = globalThis

/** Calls back in the next turn of the event loop. */
export const inNextTurn = (callback: () => void): void => void (setImmediate ?? setTimeout)(callback)
