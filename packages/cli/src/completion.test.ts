import { spawnSync } from 'node:child_process'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { COMMANDS } from './command-table.ts'
import { runCompletion } from './completion.ts'

async function scriptFor(shell: string): Promise<string> {
  const output = new PassThrough()
  const printed = text(output)
  const { signal } = new AbortController()
  const context = { input: process.stdin, output, stderr: output, env: {}, commands: COMMANDS, signal }
  await runCompletion({ values: {}, operands: [shell], context })
  output.end()
  return await printed
}

const isInstalled = (shell: string): boolean => spawnSync(shell, ['--version']).status === 0

/** Returns the completions that bash offers for the last word. */
function completionsFor(script: string, words: readonly string[]): string[] {
  const line = words.map((word) => `'${word}'`).join(' ')
  const program = `${script}\nCOMP_WORDS=(${line}); COMP_CWORD=${words.length - 1}; _baton; printf '%s\\n' "\${COMPREPLY[@]}"`
  const { stdout, stderr } = spawnSync('bash', ['-c', program], { encoding: 'utf8' })
  expect(stderr).toBe('')
  return stdout.split('\n').filter(Boolean)
}

test('bash completes commands, subcommands, options, and values from a list', async ({ skip }) => {
  if (!isInstalled('bash')) skip('completion in bash: bash is not installed')
  const script = await scriptFor('bash')
  expect(completionsFor(script, ['baton', 'd'])).toEqual(['dev', 'dump', 'databases', 'database-tokens'])
  expect(completionsFor(script, ['baton', 'databases', ''])).toEqual([
    'list',
    'show',
    'create',
    'configure',
    'destroy',
  ])
  expect(completionsFor(script, ['baton', 'databases', 'create', '--g'])).toEqual(['--group'])
  expect(completionsFor(script, ['baton', 'sql', 'app', '--f'])).toEqual(['--file'])
  expect(completionsFor(script, ['baton', 'dev', '--backend', ''])).toEqual(['embedded', 'sqld'])
  expect(completionsFor(script, ['baton', 'databases', 'configure', 'app', '--block-reads', 'o'])).toEqual([
    'on',
    'off',
  ])
  expect(completionsFor(script, ['baton', 'api-tokens', 'create', 'ci', '--scope', 'r'])).toEqual([
    'read-only',
    'read',
  ])
  expect(completionsFor(script, ['baton', 'completion', 'f'])).toEqual(['fish'])
  expect(completionsFor(script, ['baton', 'nope', ''])).toEqual([])
})

test.each(['zsh', 'fish'])('%s can parse its script', async (shell) => {
  const script = await scriptFor(shell)
  for (const { words, options } of COMMANDS)
    for (const word of [...words, ...Object.keys(options)]) expect(script).toContain(word)
  // if the shell is not installed, only the words can be checked
  if (!isInstalled(shell)) return
  expect(spawnSync(shell, ['-n'], { input: script, encoding: 'utf8' })).toMatchObject({
    status: 0,
    stderr: '',
  })
})
