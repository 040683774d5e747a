import { expect, test, vi } from 'vitest'

test('is compiled once, and again after a failure', async () => {
  // another test may have compiled it
  vi.resetModules()
  const { loadEngineModule } = await import('./engine-module.ts')
  const compile = vi.spyOn(WebAssembly, 'compile').mockRejectedValueOnce(new Error('out of memory'))
  await expect(loadEngineModule()).rejects.toThrow('out of memory')
  expect(await loadEngineModule()).toBe(await loadEngineModule())
  expect(compile).toHaveBeenCalledTimes(2)
})
