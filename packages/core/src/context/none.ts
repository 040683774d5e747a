import type { Lifetime } from '../http/lifetime.ts'
import type { LockHolder } from './lock-holder.ts'

// Platforms that do not say what a call began in.

export const runInside = <T>(_lock: object, _holder: LockHolder, callback: () => T): T => callback()

export const enterInside = (_lock: object, _holder: LockHolder): void => {}

export const waitForAround = (
  _lock: object,
  _lifetime: Lifetime,
  _sql: string,
  _signal: AbortSignal | undefined,
): Promise<void> | null => null
