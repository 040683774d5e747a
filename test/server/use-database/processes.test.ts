import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'

// Complete runs of the two test runners. Concurrent files are isolated, and nothing is left behind.

const pathOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const VITEST = pathOf('../../../node_modules/vitest/vitest.mjs')

interface CompletedRun {
  readonly status: number | null
  readonly output: string
  /** Names of the files left in the temporary directory. */
  readonly remainingFiles: readonly string[]
}

/** Runs node until it exits. */
function run(args: readonly string[], variables: NodeJS.ProcessEnv = {}): CompletedRun {
  const temporaryDirectory = createTemporaryDirectory()
  const { NODE_OPTIONS: _, VITEST: __, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    cwd: pathOf('.'),
    env: {
      ...env,
      ...variables,
      TMPDIR: temporaryDirectory,
      NO_COLOR: '1',
      NODE_OPTIONS: '--conditions=@batonsql/source',
    },
    timeout: 60_000,
  })
  const remainingFiles = readdirSync(temporaryDirectory).filter((name) => name.startsWith('baton-'))
  return { status, output: stdout + stderr, remainingFiles }
}

describe('node --test', () => {
  const nodeTest = (...names: string[]): CompletedRun =>
    run(['--test', '--test-reporter=tap', ...names.map((name) => pathOf(`node-project/${name}`))])

  test('runs two files concurrently', () => {
    const { status, output, remainingFiles } = nodeTest('notes.ts', 'same-notes.ts')
    expect(output).toMatch(/^# pass 8$/m)
    expect(output).toMatch(/^# fail 0$/m)
    expect({ status, remainingFiles }).toEqual({ status: 0, remainingFiles: [] })
  })

  test('a template that throws makes every test fail', () => {
    const { status, output, remainingFiles } = nodeTest('failing-template.ts')
    expect(output).toMatch(/^# fail 2$/m)
    expect(output.match(/error: .*the template "makeTables" failed: no tables today/g)).toHaveLength(2)
    expect({ status, remainingFiles }).toEqual({ status: 1, remainingFiles: [] })
  })

  test('runs a file directly', () => {
    expect(run([pathOf('node-project/notes.ts')])).toMatchObject({ status: 0, remainingFiles: [] })
  })
})

describe('a template with a key', () => {
  const program = pathOf('node-project/keyed-template.ts')

  function createLog(): { readonly variables: NodeJS.ProcessEnv; readonly countRuns: () => number } {
    const folder = createTemporaryDirectory()
    const variables = { LOG: join(folder, 'log'), BATON_TEMPLATES: join(folder, 'templates') }
    return { variables, countRuns: () => readFileSync(variables.LOG, 'utf8').split('made').length - 1 }
  }

  test('is made by one of two processes', () => {
    const { variables, countRuns } = createLog()
    const files = [program, pathOf('node-project/same-keyed-template.ts')]
    const args = ['--test', '--test-concurrency=2', '--test-reporter=tap', ...files]
    const { output } = run(args, { ...variables, PROCESSES: '2' })
    expect(output).toMatch(/^# pass 2$/m)
    expect(countRuns()).toBe(1)
    expect(run([program], variables).status).toBe(0)
    expect(countRuns()).toBe(1)
  })

  test('is made by the next process if the first one is killed', () => {
    const { variables, countRuns } = createLog()
    expect(run([program], { ...variables, IS_KILLED: '1' }).status).toBe(null)
    expect(run([program], variables).status).toBe(0)
    expect(countRuns()).toBe(2)
  })
})

describe('vitest', () => {
  const project = [VITEST, 'run', '--configLoader', 'native', '--root', pathOf('vitest-project')]
  const vitest = (...args: string[]): CompletedRun => run([...project, ...args])
  const notes = ['notes.test.ts']

  test.each([
    ['processes', ['--pool', 'forks']],
    ['threads', ['--pool', 'threads']],
    ['one worker for all files', ['--no-isolate', '--maxWorkers', '1']],
  ])('runs two files: %s', (_, args) => {
    const { status, output, remainingFiles } = vitest(...notes, ...args)
    expect(output).toMatch(/Tests {2}6 passed \(6\)/)
    expect(output).toMatch(/Test Files {2}2 passed \(2\)/)
    expect({ status, remainingFiles }).toEqual({ status: 0, remainingFiles: [] })
  })

  test('two processes share the server of the run', () => {
    const { status, output, remainingFiles } = run([...project, ...notes, '--pool', 'forks'], {
      SHARED_SERVER: '1',
    })
    expect(output).toMatch(/Tests {2}6 passed \(6\)/)
    const users = [...output.matchAll(/process (\d+) uses port (\d+)/g)]
    expect(new Set(users.map(([, pid]) => pid)).size).toBe(2)
    expect(new Set(users.map(([, , port]) => port)).size).toBe(1)
    expect({ status, remainingFiles }).toEqual({ status: 0, remainingFiles: [] })
  })

  test('the server of the run ends with a runner that is killed', () => {
    const program = `import { setup } from '@batonsql/local-server/vitest'; await setup(); process.kill(process.pid, 'SIGKILL')`
    const { status, remainingFiles } = run(['--input-type=module', '--eval', program])
    expect({ status, remainingFiles }).toEqual({ status: null, remainingFiles: [] })
  })

  test('runs two files of an application with a client in module scope', () => {
    const { status, output, remainingFiles } = vitest('app.test.ts')
    expect(output).toMatch(/Tests {2}2 passed \(2\)/)
    expect({ status, remainingFiles }).toEqual({ status: 0, remainingFiles: [] })
    // files that share their modules share the client, which uses the database of the first file
    const shared = vitest('app.test.ts', '--no-isolate', '--maxWorkers', '1')
    expect(shared.output).toMatch(/Tests {2}1 failed \| 1 passed \(2\)/)
  })

  test('a template that throws makes every test fail', () => {
    const { status, output, remainingFiles } = vitest('failing-template.test.ts')
    expect(output).toMatch(/Tests {2}2 failed \(2\)/)
    expect(output).toMatch(/the template "makeTables" failed: no tables today/)
    expect({ status, remainingFiles }).toEqual({ status: 1, remainingFiles: [] })
  })
})
