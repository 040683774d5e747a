import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

// Tests how the hooks of a test runner are found. Each test runs a separate process.

function run(program: string, env: Record<string, string> = {}): { status: number | null; output: string } {
  const { NODE_OPTIONS: _, VITEST: __, NODE_TEST_CONTEXT: ___, ...environment } = process.env
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--conditions=@batonsql/source', '--input-type=commonjs', '--eval', program],
    { encoding: 'utf8', cwd: fileURLToPath(new URL('.', import.meta.url)), env: { ...environment, ...env } },
  )
  return { status, output: stdout + stderr }
}

const load = "const { useDatabase } = require('@batonsql/local-server/testing')"

test('uses global hooks, like those of jest, and can be loaded with require', () => {
  const names = "['beforeAll', 'beforeEach', 'afterEach', 'afterAll']"
  const program = `${load}
const used = []
for (const name of ${names}) globalThis[name] = () => used.push(name)
useDatabase()
console.log(used.join())`
  expect(run(program, { JEST_WORKER_ID: '1' })).toEqual({
    status: 0,
    output: 'beforeAll,beforeEach,afterEach,afterAll\n',
  })
})

test.each([
  ['@jest/globals', { JEST_WORKER_ID: '1' }],
  ['vitest', { VITEST: 'true' }],
])('without global hooks, the error contains the line to add: %s', (runner, env) => {
  const { status, output } = run(`${load}\nuseDatabase()`, env)
  expect(status).toBe(1)
  expect(output).toContain(`import * as hooks from '${runner}'; useDatabase({ hooks })`)
})
