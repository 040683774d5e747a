import { onTestFinished } from 'vitest'
import { createTemporaryDirectory } from '../../../test/support/temporary-directory.ts'
import { EmbeddedBackend, type EmbeddedOptions } from '../src/embedded/backend.ts'

/** Starts an embedded back end that stops when the test ends; anyone has full access to its databases. */
export async function openBackend(options: Partial<EmbeddedOptions> = {}) {
  const { directory = createTemporaryDirectory() } = options
  const backend = new EmbeddedBackend({ isOpen: true, isDurable: false, ...options, directory })
  await backend.start()
  onTestFinished(() => backend[Symbol.asyncDispose]())
  return { backend, directory }
}
