// The part of undici that core uses, because importing all of it is slow: `tsdown.config.ts` bundles it into one file and omits what core
// never calls.
import type { Pool as PoolType } from 'undici'
// @ts-expect-error undici has no types for its individual files
import UntypedPool from 'undici/lib/dispatcher/pool.js'

export const Pool: typeof PoolType = UntypedPool
