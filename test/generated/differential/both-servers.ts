import { afterAll, beforeAll } from 'vitest'
import { hasSqld } from '../../support/has-sqld.ts'
import { type SubjectSource, startEmbeddedSource, startSqldSource } from './servers.ts'

/** Registers hooks that start and stop both servers. @returns the servers, which are available only inside tests */
export function useBothServers(): { readonly embedded: SubjectSource; readonly real: SubjectSource } {
  const sources: Partial<Record<'embedded' | 'real', SubjectSource>> = {}
  beforeAll(async () => {
    sources.embedded = await startEmbeddedSource()
    if (hasSqld) sources.real = await startSqldSource()
  })
  afterAll(async () => {
    await sources.embedded?.[Symbol.asyncDispose]()
    await sources.real?.[Symbol.asyncDispose]()
  })
  return {
    get embedded() {
      return sources.embedded as SubjectSource
    },
    get real() {
      return sources.real as SubjectSource
    },
  }
}
