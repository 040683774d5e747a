import fc from 'fast-check'
import { SEED } from './random.ts'

// A setup file of runs with `TEST_SEED`: properties that have no seed of their own use it as well.
fc.configureGlobal({ seed: SEED })
