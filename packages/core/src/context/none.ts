// Platforms that do not say what a call began in.

export const findAround = <T extends object>(_owner: object, _accepts: (value: T) => boolean): T | null =>
  null

export const runInside = <T>(_owner: object, _value: object, callback: () => T): T => callback()

export const enter = (_owner: object, _value: object): void => {}
