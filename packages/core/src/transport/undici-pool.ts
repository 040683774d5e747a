// The parts of undici that core uses: `tsdown.config.ts` bundles them into one file and omits what core never calls.
import type { Pool as PoolType } from 'undici'
// @ts-expect-error undici has no types for its individual files
import UntypedPool from 'undici/lib/dispatcher/pool.js'

export const Pool: typeof PoolType = UntypedPool
