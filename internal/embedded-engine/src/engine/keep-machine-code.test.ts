import { expect, test } from 'vitest'
import { isFreeingFlag } from './keep-machine-code.ts'

test('the flag of V8 is recognized in each form that Node accepts', () => {
  for (const flag of ['--wasm-code-gc', '--wasm_code_gc', '--wasm_code-gc', '-wasm-code-gc'])
    expect([flag, isFreeingFlag(flag)]).toEqual([flag, true])
  for (const flag of ['--no-wasm-code-gc', '--wasm-code-gc-extra'])
    expect([flag, isFreeingFlag(flag)]).toEqual([flag, false])
})
