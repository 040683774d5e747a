import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'

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
function run(args: readonly string[]): CompletedRun {
  const temporaryDirectory = mkdtempSync(join(tmpdir(), 'baton-runs-'))
  onTestFinished(() => rmSync(temporaryDirectory, { recursive: true, force: true }))
  const { NODE_OPTIONS: _, VITEST: __, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    env: { ...env, TMPDIR: temporaryDirectory, NO_COLOR: '1', NODE_OPTIONS: '--conditions=@batonsql/source' },
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

describe('vitest', () => {
  const vitest = (...args: string[]): CompletedRun =>
    run([VITEST, 'run', '--configLoader', 'native', '--root', pathOf('vitest-project'), ...args])
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
