import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { blocksOf } from './blocks.ts'

// Runs every program in the READMEs and the pages of the packages as written, twice in one process, all of them on one database.

const root = fileURLToPath(new URL('../../../', import.meta.url))
const packages = readdirSync(join(root, 'packages'))
const readmes = ['README.md', ...packages.map((name) => `packages/${name}/README.md`)]
const pages = packages.flatMap((name) => {
  const folder = `packages/${name}/docs`
  return existsSync(join(root, folder))
    ? readdirSync(join(root, folder))
        .filter((page) => page.endsWith('.md'))
        .map((page) => `${folder}/${page}`)
    : []
})
/** Pages with fragments that use names from a reader's own program. */
const FRAGMENTS = ['packages/core/docs/transactions.md']

const server = await startLocalServer({ auth: false, platform: { organization: 'acme' } })
afterAll(() => server.close())
const { url } = await server.createDatabase('readers')
const db = createClient({ url })
afterAll(() => db.close())
const folder = mkdtempSync(fileURLToPath(new URL('run-', import.meta.url)))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const programs = [
  ...readmes,
  ...pages,
  ...['recipes', 'coming-from', 'works-with'].map((name) => `docs/${name}.md`),
]
  .filter((file) => !FRAGMENTS.includes(file))
  .flatMap((file) =>
    blocksOf(join(root, file))
      .filter(({ language }) => language === 'ts')
      .map(({ code }, index) => ({ name: `${file} ${index + 1}`, code })),
  )
const owners = new Map<string, string>()

/** The names of the tables, and their rows. */
type Tables = ReadonlyMap<string, string>

/** Runs a program twice in one process. @returns its output, and the tables after each time */
async function runTwice(code: string, name: string): Promise<{ output: string; tables: readonly Tables[] }> {
  const file = `${name.replaceAll(/\W+/g, '-')}.mts`
  writeFileSync(join(folder, file), code)
  const program = `await import('./${file}?first')
    await new Promise((resolve) => { process.once('message', resolve); process.send('first run ended') })
    await import('./${file}?second')
    process.disconnect()`
  const child = spawn(
    process.execPath,
    ['--conditions=@batonsql/source', '--no-warnings', '--input-type=module', '--eval', program],
    {
      env: {
        ...process.env,
        DATABASE_URL: url,
        DATABASE_TOKEN: '',
        BATON_API_URL: server.platform?.url,
        BATON_API_TOKEN: server.platform?.token,
        NODE_OPTIONS: '',
        VITEST: undefined, // a program with tests uses node:test
      },
      timeout: 60_000,
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    },
  )
  const tables: Tables[] = []
  child.once('message', () => {
    void readTables().then((current) => {
      tables.push(current)
      child.send('continue')
    })
  })
  const exited = once(child, 'exit')
  const output = await text(child.stdout as Readable)
  expect((await exited)[0]).toBe(0)
  return { output, tables: [...tables, await readTables()] }
}

/** Returns the rows of each table of the database. */
async function readTables(): Promise<Tables> {
  const { rows } = await db.execute<{ name: string }>("select name from sqlite_schema where type = 'table'")
  const contents = await db.batch(
    rows.map(({ name }) => `select * from "${name}"`),
    { rowMode: 'array' },
  )
  return new Map(rows.map(({ name }, index) => [name, String(contents[index]?.rows)]))
}

test.each(programs)('$name runs twice, and uses only its own tables', async ({ name, code }) => {
  const tablesBefore = await readTables()
  const { output, tables } = await runTwice(code, name)
  expect(output !== '').toBe(/console\.log|from 'node:test'/.test(code))
  const [tablesAfterFirst, tablesAfter] = tables as [Tables, Tables]
  expect([...tablesAfter.keys()]).toEqual([...tablesAfterFirst.keys()])
  for (const [table, content] of tablesAfter) {
    if (!owners.has(table)) owners.set(table, name)
    if (content !== tablesBefore.get(table)) expect([table, owners.get(table)]).toEqual([table, name])
  }
  expect([...tablesBefore.keys()].filter((table) => !tablesAfter.has(table))).toEqual([])
})

test('programs pass the strictest TypeScript checks that applications use', async () => {
  const typesFolder = mkdtempSync(fileURLToPath(new URL('types-', import.meta.url)))
  onTestFinished(() => rmSync(typesFolder, { recursive: true, force: true }))
  for (const { name, code } of programs)
    writeFileSync(join(typesFolder, `${name.replaceAll(/\W+/g, '-')}.mts`), code)
  const compilerOptions = {
    noEmit: true,
    // `tsc --init` does not enable this check
    noPropertyAccessFromIndexSignature: false,
  }
  const config = { extends: join(root, 'tsconfig.base.json'), compilerOptions, include: ['*.mts'] }
  writeFileSync(join(typesFolder, 'tsconfig.json'), JSON.stringify(config))
  const tsc = join(root, 'node_modules/.bin/tsc')
  const check = promisify(execFile)(tsc, ['-p', typesFolder, '--pretty', 'false'], { cwd: typesFolder })
  const messages = await check.then(
    () => '',
    (error: Error & { stdout?: string }) => error.stdout ?? error.message,
  )
  expect(messages.split('\n').filter((line) => /^\S+\.mts\(/.test(line))).toEqual([])
})

test('no program needs a newer Node than the oldest supported version', () => {
  for (const { name, code } of programs)
    expect([name, /\bawait using\b|\busing \w+ =/.exec(code)]).toEqual([name, null])
})

describe.each(readmes)('%s', (file) => {
  const commands = blocksOf(join(root, file))
    .filter(({ language }) => language === 'sh')
    .flatMap(({ code }) => code.trim().split('\n'))
  test.each(commands.map((command) => [command]))('command exists: %s', (command) => {
    const scripts = (
      JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
    ).scripts
    const [tool, verb, ...words] = command.split(/\s+/) as [string, string, ...string[]]
    if (tool === 'npm' && verb === 'install') {
      // possibly under the name of another package
      const ownPackages = words.flatMap((word) => /(?:^|@npm:)(@batonsql\/.+)$/.exec(word)?.[1] ?? [])
      expect(ownPackages).not.toEqual([])
      for (const name of ownPackages)
        expect(existsSync(join(root, 'packages', name.replace('@batonsql/', ''), 'package.json'))).toBe(true)
    } else if (tool === 'npm' && verb === 'run') {
      expect(Object.keys(scripts)).toContain(words[0])
    } else if (tool === 'npm') {
      expect(['init', 'test', 'pkg']).toContain(verb)
    } else if (tool === 'export') {
      expect(verb).toMatch(/^DATABASE_URL=http:\/\/127\.0\.0\.1:8080$/)
    } else {
      // the command has its own tests; npx would install an unrelated package with that name
      expect(command).toMatch(
        /^npx (?:@batonsql\/cli|-p @batonsql\/cli -p @batonsql\/local-server baton) (?:dev|sql)\b/,
      )
    }
  })

  test('states the required version of Node.js near the top, as in package.json', () => {
    const manifest = JSON.parse(
      readFileSync(join(root, file.replace('README.md', 'package.json')), 'utf8'),
    ) as { engines: { node: string } }
    const text = readFileSync(join(root, file), 'utf8')
    const supportedVersions = file === 'README.md' ? '>=22.19' : manifest.engines.node
    expect(text.split('\n').slice(0, 8).join(' ')).toContain(
      `Node ${supportedVersions.replace('>=', '')} or newer`,
    )
    // the repository's tools also run on older versions, because they download a newer Node
    if (file === 'README.md')
      expect(text).toContain(`Node ${manifest.engines.node.replace('>=', '')} or newer`)
  })

  test('has only `ts` and `sh` blocks', () => {
    expect(blocksOf(join(root, file)).filter(({ language }) => !['ts', 'sh'].includes(language))).toEqual([])
  })
})

test('no page has a command for which npx would install an unrelated package', () => {
  const files = [
    ...readmes,
    ...pages,
    'packages/core/src/config.ts',
    'internal/sqld-gateway/src/process/binary.ts',
    'packages/cli/src/load-server.ts',
    'packages/cli/src/help.ts',
  ]
  for (const file of files)
    for (const [, packages = '', name] of readFileSync(join(root, file), 'utf8').matchAll(
      /npx ((?:-p @batonsql\/\S+ )*)([@\w/.-]+)/g,
    ))
      expect([file, name]).toEqual([file, packages === '' ? '@batonsql/cli' : 'baton'])
})

test('npm run demo: both ORMs return the same results', async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--conditions=@batonsql/source', 'examples/demo/demo.ts', '--data', join(folder, 'demo')],
    { cwd: root, env: { ...process.env, NODE_OPTIONS: '' }, timeout: 60_000 },
  )
  expect(stdout.match(/the same results/g)).toHaveLength(5)
  expect(stdout).toMatch(/Imported 21129 rows/)
  expect(stdout.match(/rolled back/g)).toHaveLength(2)
  expect(stdout).not.toMatch(/DIFFERENT|NOT REJECTED|COUNTED/)
})
