import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, readFileSync, rmSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { startLocalServer } from '@batonsql/local-server'
import { expect, onTestFinished, test } from 'vitest'
import { query } from '../../server/wire.ts'
import { batonCommand } from '../../support/baton-command.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const CHECKOUT_COMMAND = 'npm --prefix ../.. run baton --'
const READMES = globSync('examples/*/README.md', { cwd: root })
const PAGES = [
  ...globSync(['README.md', '{docs,examples,packages/*,packages/*/docs}/*.md'], { cwd: root }),
  ...READMES,
].filter((page) => !page.endsWith('CHANGELOG.md'))

const read = (page: string): string => readFileSync(`${root}${page}`, 'utf8')

/** Returns the lines of the blocks of commands in a page. */
const commandsOf = (page: string): string[] =>
  Array.from(read(page).matchAll(/^```(?:sh|text)?\n([^]*?)^```/gm), ([, block = '']) =>
    block.trim().split('\n'),
  ).flat()

const NEEDS_NPM = /\b(?:npx|npm (?:i|install)|bun add|pnpm add) (?:.* )?(?:\S+@npm:)?@batonsql\//

test('each page whose commands need a package of ours says that it is not on npm yet', () => {
  const pages = PAGES.filter((page) => commandsOf(page).some((line) => NEEDS_NPM.test(line)))
  expect(pages).toContain('packages/libsql-client/README.md')
  expect(pages.filter((page) => !/not on npm yet/i.test(read(page)))).toEqual([])
})

test.each(READMES)('%s says how it works today, and no command needs npm', (page) => {
  expect(read(page)).toContain(
    'Not on npm yet: before you start, [pack the packages](../README.md) once. That page also says how to use a copy of this folder.',
  )
  const commands = commandsOf(page)
  expect(commands.filter((line) => NEEDS_NPM.test(line))).toEqual([])
  const [first = ''] = commands
  const isInstallation = first === 'npm install --no-save ../../packed/*.tgz'
  expect(isInstallation || first.startsWith(`${CHECKOUT_COMMAND} dev `)).toBe(true)
})

/** Runs a line of a README in a shell. A server is stopped once it has printed its address. */
async function runLine(line: string, cwd: string, env: NodeJS.ProcessEnv): Promise<string> {
  const child: ChildProcess = spawn('sh', ['-c', `exec ${line}`], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const { stdout } = child
  if (stdout === null) throw new Error('no output')
  if (line === 'node server.ts') {
    const [address] = (await once(stdout, 'data')) as [Buffer]
    const response = await fetch(`${String(address).trim()}/guests`, { headers: { connection: 'close' } })
    const closed = once(child, 'close')
    child.kill('SIGTERM')
    await closed
    return await response.text()
  }
  const [output, [code]] = await Promise.all([text(stdout), once(child, 'close')])
  expect([line, code]).toEqual([line, 0])
  return output
}

test.each([
  ['hono-node', '[]'],
  ['aws-lambda-kysely', /statusCode: 200, body: '\[\]'/],
  ['kysely-tools', 'kysely migrate latest'],
  ['migrate-drizzle', /would apply 0000_guest.*applied 0000_guest/s],
])('the first commands of %s work in a checkout, and create its table', async (example, expected) => {
  const cwd = `${root}examples/${example}/`
  await using server = await startLocalServer()
  const env: NodeJS.ProcessEnv = { ...process.env, NODE_OPTIONS: '--conditions=@batonsql/source', PORT: '0' }
  const built = `${cwd}dist`
  if (!existsSync(built)) onTestFinished(() => rmSync(built, { recursive: true, force: true }))
  const [, block = ''] = /^```sh\n([^]*?)^```/m.exec(read(`examples/${example}/README.md`)) ?? []
  let output = ''
  let database = ''
  for (const line of block.trim().split('\n')) {
    const [, name] = /run baton -- dev --database (\S+)$/.exec(line) ?? []
    const [, url] = /^export DATABASE_URL=(\S+)$/.exec(line) ?? []
    // the port may be in use on this machine
    const toServer = (address: string): string => address.replace('http://127.0.0.1:8080', server.url)
    if (name !== undefined) database = (await server.createDatabase(name)).url
    else if (url !== undefined) env['DATABASE_URL'] = toServer(url)
    else
      output += await runLine(
        line
          .replace(`${CHECKOUT_COMMAND} sql `, () => `${batonCommand(['sql']).join(' ')} ${server.url}/`)
          // the programs run from the sources of the packages
          .replace('npm start', 'node server.ts')
          .replace('npm run build', 'npm run build -- --conditions=@batonsql/source'),
        cwd,
        env,
      )
  }
  expect(output).toMatch(expected)
  expect(await query(database, "select count(*) > 0 from sqlite_schema where type = 'table'")).toEqual([
    ['1'],
  ])
})
