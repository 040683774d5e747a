import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { hasSqld } from '../../../../test/support/has-sqld.ts'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { findSqld } from './binary.ts'
import { startSqld, startSqldChild } from './process.ts'

async function execute(url: string, sql: string): Promise<unknown> {
  const body = JSON.stringify({ requests: [{ type: 'execute', stmt: { sql } }, { type: 'close' }] })
  const response = await fetch(`${url}/v2/pipeline`, { method: 'POST', body })
  const { results } = (await response.json()) as { results: { response: { result: { rows: unknown } } }[] }
  return results[0]?.response.result.rows
}

test.runIf(hasSqld)('starts a server that responds, reports its version, and stops', async () => {
  const sqld = await startSqld()
  expect(sqld.version).toMatch(/^sqld \d/)
  expect(await execute(sqld.url, 'select 1')).toEqual([[{ type: 'integer', value: '1' }]])
  await sqld.close()
  expect(sqld.isRunning).toBe(false)
})

test.runIf(hasSqld)('lets the server end by itself when it is stopped', async () => {
  const dataDirectory = createTemporaryDirectory()
  const sqldPath = join(dataDirectory, 'program')
  const script = `#!/bin/sh
${await findSqld()} "$@" &
trap 'touch ${dataDirectory}/terminated; kill $!' TERM
wait; wait
`
  await writeFile(sqldPath, script, { mode: 0o755 })
  const sqld = await startSqld({ dataDirectory, sqldPath })
  await sqld.close()
  expect(await readdir(dataDirectory)).toContain('terminated')
})

test.runIf(hasSqld)(
  'keeps the data in its directory, and rejects a second server for the same directory',
  async () => {
    const dataDirectory = createTemporaryDirectory()
    const first = await startSqld({ dataDirectory })
    await execute(first.url, 'create table t(a)')
    await expect(startSqld({ dataDirectory })).rejects.toThrow(`in use by process ${process.pid}`)
    await first.kill()
    await using second = await startSqld({ dataDirectory })
    expect(await execute(second.url, 'select count(*) from t')).toEqual([[{ type: 'integer', value: '0' }]])
    await second.close()
  },
)

test('rejects an unknown option and a wrong path', async () => {
  await expect(startSqld({ datadirectory: '/tmp' } as object)).rejects.toThrow(TypeError)
  await expect(startSqld({ sqldPath: '/nonexistent/sqld' })).rejects.toThrow(
    'sqldPath names /nonexistent/sqld',
  )
})

test('reports what a program that exits at once has printed', async () => {
  const directory = createTemporaryDirectory()
  const sqldPath = join(directory, 'program')
  await writeFile(sqldPath, '#!/bin/sh\necho broken >&2\nexit 1\n', { mode: 0o755 })
  await expect(startSqld({ sqldPath })).rejects.toThrow(
    'libsql-server did not start: it exited at once\nbroken',
  )
})

/** Returns the command lines of programs that use a directory. */
async function findPrograms(directory: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const commands = await Promise.all(
    ids.map((id) => readFile(`/proc/${id}/cmdline`, 'latin1').catch(() => '')),
  )
  return commands.filter((command) => command.includes(`${directory}/sqld`))
}

test.skipIf(!hasSqld || process.platform !== 'linux').each<{
  fails: string
  prepare: (dataDirectory: string, sqldPath: string) => Promise<unknown>
}>([
  {
    fails: 'its version cannot be read',
    prepare: async (_, sqldPath) =>
      await writeFile(
        sqldPath,
        `#!/bin/sh\n[ "$1" = --version ] && exit 1\nexec ${await findSqld()} "$@"\n`,
        { mode: 0o755 },
      ),
  },
  {
    fails: 'its process id cannot be written',
    prepare: async (dataDirectory, sqldPath) => {
      await mkdir(join(dataDirectory, 'sqld.pid'))
      await symlink(await findSqld(), sqldPath)
    },
  },
])('leaves no server running if $fails', async ({ prepare }) => {
  const dataDirectory = createTemporaryDirectory()
  const sqldPath = join(dataDirectory, 'program')
  await prepare(dataDirectory, sqldPath)
  await expect(startSqld({ dataDirectory, sqldPath })).rejects.toThrow()
  // the watchdog ends after the server
  await expect.poll(() => findPrograms(dataDirectory), { timeout: 60_000 }).toEqual([])
})

test.skipIf(!hasSqld || process.platform !== 'linux')(
  'leaves no server running if the process is killed while it starts one, and the directory can be used again',
  async () => {
    const dataDirectory = createTemporaryDirectory()
    const program = `const { startSqld } = await import(${JSON.stringify(new URL('process.ts', import.meta.url).href)})
      process.stdout.write('.')
      await startSqld({ dataDirectory: ${JSON.stringify(dataDirectory)} })`
    for (let round = 0; round < 8; round++) {
      const flags = [
        '--conditions=@batonsql/source',
        '--no-warnings',
        '--input-type=module',
        '--eval',
        program,
      ]
      const starter = spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'inherit'] })
      await once(starter.stdout, 'data')
      await new Promise((resolve) => setTimeout(resolve, round * 8))
      starter.kill('SIGKILL')
      await once(starter, 'exit')
      await expect.poll(() => findPrograms(dataDirectory), { timeout: 60_000 }).toEqual([])
    }
    await using sqld = await startSqld({ dataDirectory })
    expect(await execute(sqld.url, 'select 1')).toEqual([[{ type: 'integer', value: '1' }]])
    await sqld.close()
  },
)

test.runIf(hasSqld)(
  'a checkpoint of a database that is not loaded yet does not make the server report it as missing',
  async () => {
    const dataDirectory = createTemporaryDirectory()
    const config = { allow_attach: false, block_reads: false, block_writes: false }
    const first = await startSqldChild({ dataDirectory, namespaces: true })
    await first.admin.create('app', config)
    await first.close()
    await using second = await startSqldChild({ dataDirectory, namespaces: true })
    await second.admin.checkpoint('app')
    expect(await second.admin.configureIfExists('app', { ...config, block_reads: true })).toBe(true)
    await expect(second.admin.checkpoint('other')).rejects.toThrow("doesn't exist")
    await second.close()
  },
)

test.runIf(hasSqld)(
  'starts despite the empty version file of a server that was killed during startup',
  async () => {
    const dataDirectory = createTemporaryDirectory()
    await mkdir(join(dataDirectory, 'sqld'))
    await writeFile(join(dataDirectory, 'sqld/.version'), '')
    await using sqld = await startSqld({ dataDirectory })
    expect(await execute(sqld.url, 'select 1')).toEqual([[{ type: 'integer', value: '1' }]])
    await sqld.close()
  },
)

test.skipIf(process.platform === 'win32')(
  'does not start if it cannot read which server may still be running',
  async () => {
    const dataDirectory = createTemporaryDirectory()
    await symlink('sqld.pid', join(dataDirectory, 'sqld.pid'))
    const sqldPath = join(dataDirectory, 'program')
    await writeFile(sqldPath, `#!/bin/sh\ntouch '${dataDirectory}/started'\n`, { mode: 0o755 })
    await expect(startSqld({ dataDirectory, sqldPath })).rejects.toThrow('ELOOP')
    expect(await readdir(dataDirectory)).not.toContain('started')
  },
)
