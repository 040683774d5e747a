/** Platforms without channels have no listeners. */
export const channel = { hasSubscribers: false, publish(_event: unknown): void {} }
