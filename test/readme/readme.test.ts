import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, describe, expect, test } from 'vitest'

// Every block of code in every README is run as it stands.

const root = fileURLToPath(new URL('../../', import.meta.url))
const files = [
  'README.md',
  ...readdirSync(join(root, 'packages')).map((name) => `packages/${name}/README.md`),
].filter((file) => existsSync(join(root, file)))
const blocks = (file: string): { language: string; code: string }[] =>
  [...readFileSync(join(root, file), 'utf8').matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(
    ([, language = '', code = '']) => ({ language, code }),
  )

const server = await startLocalServer()
afterAll(() => server.close())
const folder = mkdtempSync(fileURLToPath(new URL('run-', import.meta.url)))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let count = 0

async function run(code: string): Promise<string> {
  const name = `readme-${(count += 1)}`
  const { url } = await server.createDatabase(name)
  const file = join(folder, `${name}.ts`)
  writeFileSync(file, code)
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--conditions=@batonsql/source', '--no-warnings', file],
    {
      env: { ...process.env, DATABASE_URL: url, DATABASE_TOKEN: '', NODE_OPTIONS: '' },
      timeout: 20_000,
      cwd: folder,
    },
  )
  return stdout
}

describe.each(files)('%s', (file) => {
  const programs = blocks(file).filter(({ language }) => language === 'ts')
  test.each(programs.map(({ code }, at) => [at + 1, code] as const))('program %i runs', async (_, code) => {
    const output = await run(code)
    if (code.includes('console.log')) expect(output).not.toBe('')
  })

  const commands = blocks(file)
    .filter(({ language }) => language === 'sh')
    .flatMap(({ code }) => code.trim().split('\n'))
  test.each(commands)('command exists: %s', (command) => {
    const scripts = (
      JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
    ).scripts
    const [tool, verb, ...words] = command.split(/\s+/) as [string, string, ...string[]]
    if (tool === 'npm' && verb === 'install') {
      const own = words.filter((word) => word.startsWith('@batonsql/'))
      expect(own).not.toEqual([])
      for (const name of own)
        expect(existsSync(join(root, 'packages', name.replace('@batonsql/', ''), 'package.json'))).toBe(true)
    } else if (tool === 'npm') {
      expect(Object.keys(scripts)).toContain(verb === 'run' ? words[0] : verb)
    } else {
      // the command itself has tests of its own, beside its source
      expect([tool, verb]).toEqual([
        'npx',
        expect.stringMatching(/^(baton|drizzle-kit|kysely|kysely-codegen)$/),
      ])
    }
  })

  test('has no block of another kind', () => {
    expect(blocks(file).filter(({ language }) => !['ts', 'sh'].includes(language))).toEqual([])
  })
})

test('npm run demo: both ORMs give the same answers', { timeout: 60_000 }, async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--conditions=@batonsql/source', 'examples/demo/demo.ts', '--data', join(folder, 'demo')],
    { cwd: root, env: { ...process.env, NODE_OPTIONS: '' }, timeout: 60_000 },
  )
  expect(stdout.match(/the same answer/g)).toHaveLength(5)
  expect(stdout).toMatch(/Imported 21129 rows/)
  expect(stdout.match(/rolled back/g)).toHaveLength(2)
  expect(stdout).not.toMatch(/DIFFERENT|NOT REFUSED|COUNTED/)
})
