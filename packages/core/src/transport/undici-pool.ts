// What core uses of undici, as a module of its own: `tsdown.config.ts` makes one file of it, without what core never calls.
import type { Pool as PoolType } from 'undici'
// @ts-expect-error undici has types for the whole of it, not for its files
import UntypedPool from 'undici/lib/dispatcher/pool.js'

export const Pool: typeof PoolType = UntypedPool
