/** The functions as they were when this module was imported, before a user's test has replaced them with fake timers. */
const { setImmediate, setTimeout } = globalThis

/** Calls back in the next turn of the event loop. */
export const inNextTurn = (callback: () => void): void => void (setImmediate ?? setTimeout)(callback)
