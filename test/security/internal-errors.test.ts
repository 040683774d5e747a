import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'
import { findSqld } from '@batonsql/local-server/sqld'
import { expect, test, vi } from 'vitest'
import { query } from '../server/wire.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { BACKENDS } from './attacked-server.ts'

/** Ways to damage a database's file. */
const DAMAGES: Readonly<Record<string, (file: string) => Promise<void>>> = {
  garbage: (file) => writeFile(file, Buffer.alloc(20_000, 7)),
  header: async (file) => writeFile(file, (await readFile(file)).fill(9, 0, 100)),
  schema: async (file) => writeFile(file, (await readFile(file)).fill(9, 100, 4_096)),
  folder: async (file) => {
    await rm(file)
    await mkdir(file)
  },
}

/** Paths, process ids, backtraces, ports, and texts of the engine. */
const INTERNAL = /\/|\bprocess \d|\bat \w|\bport|127\.0\.0\.1|not a database|malformed|cannot be opened/

test.each(BACKENDS)(
  'the client receives a reference, the log the error, and /health reports it: %s',
  async (backend) => {
    const directory = createTemporaryDirectory()
    const listFiles = async (): Promise<string[]> =>
      (await readdir(directory, { recursive: true })).filter((file) =>
        /(?:dbs|databases)[\\/].*data(?:\.db)?$/.test(file),
      )
    {
      await using server = await startLocalServer({ backend, dataDirectory: directory })
      await server.createDatabase('intact')
      const files = new Map<string, string>()
      for (const name of Object.keys(DAMAGES)) {
        const before = await listFiles()
        const { url } = await server.createDatabase(name)
        await query(url, 'create table t (a)')
        files.set(name, join(directory, (await listFiles()).find((file) => !before.includes(file)) as string))
      }
      await server.close()
      for (const [name, damage] of Object.entries(DAMAGES)) {
        const file = files.get(name) as string
        for (const suffix of ['-wal', '.wal']) await rm(file + suffix, { force: true })
        if ((await readFile(file)).length === 0) await writeFile(file, Buffer.alloc(4_096))
        await damage(file)
      }
    }
    const log = vi.spyOn(console, 'error').mockImplementation(() => {})
    await using server = await startLocalServer({ backend, dataDirectory: directory })
    const health = async (name: string): Promise<number> =>
      (await fetch(`${server.url}/${name}/health`)).status
    expect(await health('intact')).toBe(200)
    for (const name of Object.keys(DAMAGES)) {
      // before any request, and after failed ones
      expect([name, await health(name)]).toEqual([name, 503])
      const stmt = { sql: 'select * from t' }
      for (const [path, body] of [
        ['v2/pipeline', { requests: [{ type: 'execute', stmt }, { type: 'close' }] }],
        ['v3/cursor', { batch: { steps: [{ stmt }] } }],
        ['dump', null],
        ['export/1', null],
      ] as const) {
        const response = await fetch(`${server.url}/${name}/${path}`, {
          ...(body !== null && { method: 'POST', body: JSON.stringify(body) }),
        })
        const text = await response.text()
        expect([name, path, response.status, text]).toEqual([
          name,
          path,
          500,
          expect.not.stringMatching(INTERNAL),
        ])
        const reference = /reference (\w+)/.exec(text)?.[1]
        const lines = log.mock.calls.map(([line]) => String(line))
        expect(lines).toContainEqual(
          expect.stringContaining(reference ?? `${name}: libsql-server cannot use`),
        )
      }
      expect([name, await health(name)]).toEqual([name, 503])
    }
    expect(await health('intact')).toBe(200)
  },
)

test.runIf(BACKENDS.includes('sqld'))(
  'nor does the client receive why a libsql-server that has exited cannot be started again',
  async () => {
    const directory = createTemporaryDirectory()
    const sqldPath = join(directory, 'sqld')
    await symlink(await findSqld(), sqldPath)
    const dataDirectory = join(directory, 'data')
    await using server = await startLocalServer({ backend: 'sqld', dataDirectory, sqldPath })
    await query(server.url, 'create table t (a)')
    const log = vi.spyOn(console, 'error').mockImplementation(() => {})
    await rm(sqldPath)
    for (const file of await readdir(dataDirectory, { recursive: true }))
      if (file.endsWith('sqld.pid'))
        process.kill(JSON.parse(await readFile(join(dataDirectory, file), 'utf8')).pid, 'SIGKILL')
    const body = JSON.stringify({ requests: [{ type: 'execute', stmt: { sql: 'select * from t' } }] })
    let text = ''
    const send = async (): Promise<number> => {
      const response = await fetch(`${server.url}/v2/pipeline`, { method: 'POST', body })
      text = await response.text()
      return response.status
    }
    // 502 until the server has noticed that the process has exited
    await expect.poll(send).toBe(500)
    expect(text).not.toMatch(INTERNAL)
    const lines = log.mock.calls.map(([line]) => String(line))
    expect(lines).toContainEqual(expect.stringContaining(/reference \w+/.exec(text)?.[0] ?? sqldPath))
    expect(lines).toContainEqual(expect.stringContaining(sqldPath))
  },
)
