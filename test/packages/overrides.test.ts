import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { IS_RELEASE } from '../support/random.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { LIBRARIES } from './libraries.ts'
import { pnpm, ROOT, registryProblem, run } from './run.ts'
import { ScopedRegistry } from './scoped-registry.ts'
import { FOLDERS, openTarball } from './tarballs.ts'

// Programs written for @libsql/client, with one line in package.json that replaces it with our package.

const CLIENT_OVERRIDE = 'npm:@batonsql/libsql-client@latest'
const DRIZZLE_DEPENDENCIES = { 'drizzle-orm': '0.45.4', '@types/node': '24.19.2' }

const folder = createTemporaryDirectory(afterAll)
const problem = await registryProblem()
beforeEach(({ skip }) => {
  if (problem !== null) skip(`overrides: ${problem}`)
})

let registry: ScopedRegistry | null = null
const server = await startLocalServer()
afterAll(async () => {
  await registry?.close()
  await server.close()
})
beforeAll(async () => {
  if (problem !== null) return
  const tarballs = await Promise.all(FOLDERS.map((name) => openTarball(name, inject('packed'))))
  registry = await ScopedRegistry.start(tarballs)
}, 180_000)

function createProject(name: string, manifest: object): string {
  const project = join(folder, name)
  mkdirSync(project)
  registry?.configure(project)
  writeFileSync(join(project, 'package.json'), JSON.stringify({ private: true, type: 'module', ...manifest }))
  return project
}

type Installer = (project: string, env?: Readonly<Record<string, string>>) => Promise<unknown>
const INSTALLERS: Readonly<Record<string, Installer>> = {
  npm: (cwd, env = {}) =>
    run(['npm', 'install', '--prefer-offline', '--no-audit', '--no-fund'], { cwd, env }),
  pnpm: (cwd) =>
    pnpm(['install', '--prefer-offline', `--config.cache-dir=${join(folder, 'cache')}`], { cwd }),
}

describe.each([
  // a direct dependency has its own line
  { tool: 'npm', manifest: { dependencies: { ...DRIZZLE_DEPENDENCIES, '@libsql/client': CLIENT_OVERRIDE } } },
  {
    tool: 'npm',
    manifest: {
      dependencies: {
        ...DRIZZLE_DEPENDENCIES,
        '@libsql/client': CLIENT_OVERRIDE,
        '@libsql/kysely-libsql': '0.4.1',
        kysely: '0.28.18',
      },
      overrides: { '@libsql/client': CLIENT_OVERRIDE },
    },
  },
  {
    tool: 'pnpm',
    manifest: {
      dependencies: { ...DRIZZLE_DEPENDENCIES, '@libsql/client': '0.18.0' },
      pnpm: { overrides: { '@libsql/client': CLIENT_OVERRIDE } },
    },
  },
] as const)('$tool, $manifest', ({ tool, manifest }) => {
  test('the program runs and type-checks unchanged', async () => {
    const project = createProject(`${tool}-${Object.keys(manifest).join('-')}`, manifest)
    if ('pnpm' in manifest) writeFileSync(join(project, 'pnpm-workspace.yaml'), JSON.stringify(manifest.pnpm))
    await INSTALLERS[tool]?.(project)
    const { name } = JSON.parse(
      readFileSync(join(project, 'node_modules/@libsql/client/package.json'), 'utf8'),
    ) as { name: string }
    expect(name).toBe('@batonsql/libsql-client')
    writeFileSync(join(project, 'app.ts'), readFileSync(join(ROOT, 'test/packages/apps/libsql-client.ts')))
    const env = { DATABASE_URL: server.url }
    expect(await run([process.execPath, '--no-warnings', 'app.ts'], { cwd: project, env })).toBe(
      'libsql-client: ok\n',
    )
    const tsc = [
      join(ROOT, 'node_modules/.bin/tsc'),
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--pretty',
      'false',
    ]
    const language = ['--target', 'es2023', '--module', 'nodenext', '--types', 'node']
    const output = await run([...tsc, ...language, 'app.ts'], { cwd: project }).catch(String)
    expect(output.split('\n').filter((line) => line.startsWith('app.ts'))).toEqual([])
  })
})

// 300 MB: installed only for a release
describe.runIf(IS_RELEASE)('libraries with @libsql/client inside', () => {
  let project = ''
  beforeAll(async () => {
    project = createProject('libraries', {
      dependencies: { '@libsql/client': CLIENT_OVERRIDE, '@batonsql/cli': 'latest', ...LIBRARIES },
      overrides: { '@libsql/client': CLIENT_OVERRIDE },
    })
    // The engine is never started, because the generated client needs no binary. Its download leaves a folder in the temporary directory.
    const env = { PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' }
    await INSTALLERS['npm']?.(project, env)
    for (const file of ['auth.mjs', 'mastra.mjs', 'payload.mjs', 'prisma.mjs', 'prisma-diff.mjs'])
      copyTo(project, file)
    for (const file of ['schema.prisma', 'schema.ts']) copyTo(project, file)
    await run(['npx', 'prisma', 'generate', '--schema', 'schema.prisma'], { cwd: project, env })
  }, 600_000)

  test.each(['auth', 'mastra', 'payload', 'prisma'])('%s runs with the replacement', async (name) => {
    const { url } = await server.createDatabase(name)
    const output = await run([process.execPath, '--no-warnings', `${name}.mjs`], {
      cwd: project,
      env: { DATABASE_URL: url },
    })
    expect(output).toContain(`${name}: ok`)
  })

  test('prisma migrate diff, applied with `baton sql --file`, keeps the rows', async () => {
    const { url } = await server.createDatabase('prisma-diff')
    const schema = readFileSync(join(project, 'schema.prisma'), 'utf8')
    // SQLite cannot drop NOT NULL: Prisma recreates the table, with foreign keys off
    const next = schema.replace('email String @unique', 'email String? @unique')
    writeFileSync(join(project, 'next.prisma'), next)
    const migrate = async (...schemas: string[]): Promise<string> => {
      const diff = [process.execPath, '--no-warnings', 'prisma-diff.mjs', ...schemas]
      const output = await run(diff, { cwd: project, env: { DATABASE_URL: url } })
      writeFileSync(join(project, 'migration.sql'), output)
      await run(['npx', 'baton', 'sql', url, '--file', 'migration.sql'], { cwd: project })
      return output
    }
    await using db = createClient({ url })
    expect(await migrate('schema.prisma')).toContain('CREATE TABLE "Post"')
    await db.batch([
      `insert into "User" (email) values ('ada@example.com')`,
      `insert into "Post" (title, big, authorId) values ('one', 9007199254740993, 1)`,
    ])
    expect(await migrate('schema.prisma', 'next.prisma')).toContain('DROP TABLE "User"')
    await db.execute('insert into "User" (email) values (null)')
    const { rows } = await db.execute(
      'select title, big, email from "Post" join "User" on "User".id = authorId',
    )
    expect(rows).toEqual([{ title: 'one', big: 2n ** 53n + 1n, email: 'ada@example.com' }])
    expect((await db.execute('pragma foreign_key_check')).rows).toEqual([])
  })

  test('drizzle-kit can push, generate, migrate and pull', async () => {
    const runKit = async (name: string, ...words: string[]): Promise<string> => {
      const { url } = await server.createDatabase(name)
      const config = {
        dialect: 'turso',
        schema: './schema.ts',
        out: './out',
        dbCredentials: { url, authToken: 'x' },
      }
      writeFileSync(join(project, 'drizzle.config.ts'), `export default ${JSON.stringify(config)}`)
      let output = ''
      for (const word of words)
        output += await run(['npx', 'drizzle-kit', ...word.split(' ')], { cwd: project })
      const db = createClient({ url })
      await db.execute("insert into person (name, score) values ('Ada', 1)")
      await db.close()
      return output
    }
    const output = await runKit('pushed', 'push --force', 'push --force')
    expect(output).toContain('Changes applied')
    expect(output).toContain('No changes detected')
    expect(await runKit('migrated', 'generate', 'migrate', 'pull')).toContain('Your schema file is ready')
  })
})

describe.runIf(IS_RELEASE)('drizzle-orm 1.0', () => {
  test('the driver for @libsql/client runs with the replacement', { timeout: 300_000 }, async () => {
    const dependencies = { '@libsql/client': CLIENT_OVERRIDE, 'drizzle-orm': '1.0.0-rc.5' }
    const project = createProject('drizzle-1', {
      dependencies,
      overrides: { '@libsql/client': CLIENT_OVERRIDE },
    })
    await INSTALLERS['npm']?.(project)
    copyTo(project, 'drizzle-1.mjs')
    const { url } = await server.createDatabase('drizzle-1')
    const command = [process.execPath, '--no-warnings', 'drizzle-1.mjs']
    expect(await run(command, { cwd: project, env: { DATABASE_URL: url } })).toBe('drizzle-1: ok\n')
  })
})

function copyTo(project: string, file: string): void {
  writeFileSync(join(project, file), readFileSync(join(ROOT, 'test/packages/apps/overrides', file)))
}
