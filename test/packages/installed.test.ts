import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest'
import { blocksOf } from '../readme/blocks.ts'
import { type BorrowedNode, borrowNode, pnpm, ROOT, run } from './run.ts'
import { ScopedRegistry } from './scoped-registry.ts'
import { type Served, serve } from './served.ts'
import { FOLDERS, manifestOf, pack, type Tarball } from './tarballs.ts'

// What a new user has: the packages as they are published, in an empty project, on the oldest node and on the newest.

const OLDEST = `${manifestOf('core').engines.node.replace('>=', '')}.0`
const NEWEST = '26.10.0'
const TOO_OLD = ['20.19.0', '18.20.8']

const folder = mkdtempSync(join(tmpdir(), 'baton-installed-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let registry: ScopedRegistry | null = null
afterAll(() => registry?.close())
const emptyFolder = (name: string): string => {
  const path = join(folder, name)
  mkdirSync(path)
  return path
}
/** Where our packages can be installed. */
const projectFolder = (name: string): string => {
  const path = emptyFolder(name)
  registry?.configure(path)
  return path
}

const supported: BorrowedNode[] = []
const tooOld: BorrowedNode[] = []
beforeAll(async () => {
  const tarballs: Tarball[] = []
  for (const [at, name] of FOLDERS.entries()) tarballs.push(await pack('npm', name, folder, at === 0))
  registry = await ScopedRegistry.start(tarballs)
  for (const version of [OLDEST, NEWEST]) supported.push(await borrowNode(version))
  for (const version of TOO_OLD) tooOld.push(await borrowNode(version))
}, 180_000)

/** The program of a version of node. What this machine cannot have is skipped, and the summary says so. */
function nodeOf(version: string, { skip }: TestContext): string {
  const { path, unavailable } = [...supported, ...tooOld].find(
    (node) => node.version === version,
  ) as BorrowedNode
  if (path === null) skip(`node ${version}: ${unavailable}`)
  return path as string
}

describe('the README, from its first line', () => {
  const lines = blocksOf(join(ROOT, 'README.md')).flatMap(({ language, code }) =>
    language === 'sh' ? code.trim().split('\n') : [code],
  )
  const programs = lines.filter((line) => line.startsWith('// '))
  const nameOf = (program: string): string => /^\/\/ (\S+)/.exec(program)?.[1] as string
  const project = join(folder, 'readme')
  let served: Served | null = null
  const env: Record<string, string> = {}
  afterAll(() => served?.interrupt())

  beforeAll(async () => {
    projectFolder('readme')
    for (const line of lines) {
      const words = line.split(' ')
      if (line.startsWith('// ')) writeFileSync(join(project, nameOf(line)), line)
      else if (words[1] === 'install')
        await run([...words, '--prefer-offline', '--no-audit', '--no-fund'], { cwd: project })
      else if (words[0] === 'npx')
        // the port of the README may be taken on the machine that runs this
        served = await serve([...words, '--port', '0'], { cwd: project })
      else if (words[0] === 'export') env['DATABASE_URL'] = served?.url ?? 'no server yet'
      else if (words[1] === 'init') await run(words, { cwd: project })
      // the rest is for a checkout of the repository, and has tests of its own
      else expect(line).toMatch(/^npm (run demo|test)$/)
    }
  }, 120_000)

  test.for([OLDEST, NEWEST])(
    'its programs run, in their order, twice: node %s',
    { timeout: 60_000 },
    async (version, context) => {
      const node = nodeOf(version, context)
      expect(programs).toHaveLength(4)
      for (let round = 0; round < 2; round++)
        for (const program of programs)
          expect(await run([node, nameOf(program)], { cwd: project, env })).not.toBe('')
    },
  )

  test('Ctrl-C ends the server, without an error', async () => {
    const { url, interrupt } = served as unknown as Served
    expect(await interrupt()).toBe('')
    await expect(fetch(`${url}/health`)).rejects.toThrow('fetch failed')
  })
})

describe('npx with nothing installed', () => {
  test('runs the command of the local server', { timeout: 60_000 }, async () => {
    // nothing of it stays on this machine
    const env = { npm_config_cache: emptyFolder('npx-cache') }
    const command = ['npx', '--yes', '@batonsql/local-server', 'dev', '--port', '0']
    const served = await serve(command, { cwd: projectFolder('npx'), env })
    expect(await (await fetch(`${served.url}/version`)).text()).toMatch(/^baton/i)
    expect(await served.interrupt()).toBe('')
    await expect(fetch(`${served.url}/health`)).rejects.toThrow('fetch failed')
  })
})

describe.each([
  { orm: 'kysely', dependencies: { '@batonsql/kysely-dialect': 'latest', kysely: '0.29.9' } },
  { orm: 'drizzle', dependencies: { '@batonsql/drizzle-driver': 'latest', 'drizzle-orm': '0.45.4' } },
])('an application with $orm alone, installed by a strict pnpm', ({ orm, dependencies }) => {
  const project = join(folder, `pnpm-${orm}`)
  const bundled = join(folder, `bundled-${orm}`)
  const env: Record<string, string> = {}
  let server: Awaited<ReturnType<typeof startLocalServer>> | null = null
  afterAll(() => server?.close())

  beforeAll(async () => {
    server = await startLocalServer()
    env['DATABASE_URL'] = server.url
    projectFolder(`pnpm-${orm}`)
    writeFileSync(
      join(project, 'package.json'),
      JSON.stringify({ private: true, type: 'module', dependencies }),
    )
    const strict = { hoist: false, autoInstallPeers: false, strictPeerDependencies: true }
    writeFileSync(join(project, 'pnpm-workspace.yaml'), JSON.stringify(strict))
    await pnpm(['install', '--prefer-offline', `--config.cache-dir=${join(folder, 'pnpm-cache')}`], {
      cwd: project,
    })
    writeFileSync(join(project, 'app.ts'), readFileSync(join(ROOT, `test/packages/apps/${orm}.ts`)))
    for (const format of ['esm', 'cjs'] as const) {
      await build({
        absWorkingDir: project,
        entryPoints: ['app.ts'],
        bundle: true,
        platform: 'node',
        format,
        // far from anything that is installed
        outfile: join(bundled, format === 'esm' ? 'app.mjs' : 'app.cjs'),
        logLevel: 'error',
      })
    }
  }, 120_000)

  test('its types are right, and those of the packages', { timeout: 60_000 }, async () => {
    const types = ['--types', 'node', '--typeRoots', join(ROOT, 'node_modules/@types')]
    const language = ['--target', 'es2023', '--module', 'nodenext', '--lib', 'es2023,esnext.disposable,dom']
    const tsc = [join(ROOT, 'node_modules/.bin/tsc'), '--noEmit', '--strict', '--pretty', 'false']
    const said = await run([...tsc, ...language, ...types, 'app.ts'], { cwd: project }).catch(String)
    // Drizzle's own declarations for other databases are not
    expect(said.split('\n').filter((line) => /^(app\.ts|\S*@batonsql)/.test(line))).toEqual([])
    expect(said).not.toMatch(/error TS(5|6|18)\d\d\d/)
  })

  test.for([OLDEST, NEWEST])('runs on node %s', async (version, context) => {
    const node = nodeOf(version, context)
    expect(await run([node, '--no-warnings', 'app.ts'], { cwd: project, env })).toBe(`${orm}: ok\n`)
  })

  test.for([OLDEST, NEWEST])(
    'as a bundle of esbuild, ESM and CJS, it runs on node %s',
    async (version, context) => {
      const node = nodeOf(version, context)
      expect(await run([node, 'app.mjs'], { cwd: bundled, env })).toBe(`${orm}: ok\n`)
      expect(await run([node, 'app.cjs'], { cwd: bundled, env })).toBe(`${orm}: ok\n`)
    },
  )

  test('what it has not installed is not there', async () => {
    const missing = ['@batonsql/core', '@batonsql/local-server', 'undici'].map((name) =>
      run([process.execPath, '-e', `import.meta.resolve; await import('${name}')`, '--input-type=module'], {
        cwd: project,
      }),
    )
    for (const { status } of await Promise.allSettled(missing)) expect(status).toBe('rejected')
  })
})

describe.each(TOO_OLD)('on node %s, which is too old', (version) => {
  const sentence = (name: string): string =>
    `${name} needs node ${OLDEST.replace(/\.0$/, '')} or newer; this is node ${version}`

  test('the command says so in one sentence', async (context) => {
    const node = nodeOf(version, context)
    const command = join(folder, 'readme/node_modules/@batonsql/local-server/dist/cli.js')
    const failed = await run([node, command, 'dev'], { cwd: folder }).catch(String)
    expect(failed).toMatch(new RegExp(`\n\n${sentence('@batonsql/local-server')}\n$`))
  })

  test.for(['@batonsql/local-server', '@batonsql/local-server/sqld'])(
    'so does importing %s',
    async (name, context) => {
      const node = nodeOf(version, context)
      const program = `import('${name}').then(() => 'imported', (error) => error.message).then(console.log)`
      const said = await run([node, '-e', program], { cwd: join(folder, 'readme') })
      expect(said).toBe(`${sentence('@batonsql/local-server')}\n`)
    },
  )
})

test('npm run … of the repository on a node that can borrow none says so in one sentence', async (context) => {
  const node = nodeOf('18.20.8', context)
  const failed = await run([node, 'scripts/task.mjs', 'test'], { cwd: ROOT }).catch(String)
  expect(failed).toMatch(/\n\nBaton's tools need node 20\.19 or newer; this is node 18\.20\.8\.\n$/)
})
