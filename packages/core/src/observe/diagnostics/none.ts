/** Platforms without channels: nobody listens. */
export const hasSubscribers = (): boolean => false

export const publish = (_event: unknown): void => {}
