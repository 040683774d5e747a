import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { query } from './wire.ts'

const CLI = fileURLToPath(new URL('../../packages/local-server/src/cli.ts', import.meta.url))

function baton(...args: string[]): ChildProcess {
  const { NODE_OPTIONS: _, ...env } = process.env
  return spawn(
    process.execPath,
    ['--conditions=@batonsql/source', '--disable-warning=ExperimentalWarning', CLI, ...args],
    { env },
  )
}

async function finished(
  child: ChildProcess,
): Promise<{ code: number | null; output: string; errors: string }> {
  let output = ''
  let errors = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, output, errors }
}

describe('baton dev', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    'serves what it prints and stops cleanly on %s',
    async (signal) => {
      const child = baton('dev', '--port', '0', '--auth', '--database', 'app')
      const end = finished(child)
      let output = ''
      for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
        output += chunk.toString()
        if (/^app: .*\n {2}token: .*\n/m.test(output)) break
      }
      const [, url = '', token = ''] = /^app: (\S+)\n {2}token: (\S+)$/m.exec(output) ?? []
      expect(await query(url, 'SELECT 1', { token })).toEqual([['1']])
      child.kill(signal)
      expect((await end).code).toBe(0)
    },
  )
})

test.each([
  [['--version'], 0, /^\d+\.\d+\.\d+/, /^$/],
  [['--help'], 0, /baton dev \[options\]/, /^$/],
  [[], 2, /^$/, /say what to do/],
  [['serve'], 2, /^$/, /there is no command "serve"/],
  [['dev', '--prot', '1'], 2, /^$/, /baton dev: Unknown option '--prot'/],
  [['dev', '--port', 'x'], 2, /^$/, /--port x is not a port/],
  [['dev', '--backend', 'x'], 2, /^$/, /--backend is embedded or sqld, not x/],
  [['sqld'], 2, /^$/, /the only command is `install`/],
])('baton %j', async (args, code, output, errors) => {
  const end = await finished(baton(...args))
  expect(end.code).toBe(code)
  expect(end.output).toMatch(output)
  expect(end.errors).toMatch(errors)
})
