/** Platforms without channels have no listeners. */
export const hasSubscribers = (): boolean => false

export const publish = (_event: unknown): void => {}
