/** Replaces the channel on platforms without `diagnostics_channel`. */
export const channel = { hasSubscribers: false, publish(_event: unknown): void {} }

export const warn = (message: string): void => console.warn(message)
