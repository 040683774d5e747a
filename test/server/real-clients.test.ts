import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '@batonsql/core'
import { createClient as createLibsqlClient } from '@libsql/client/http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestServer, type TestDatabase } from '../support/test-server.ts'

// Third-party clients on each tested server. The server must support every part of the protocol that they need.
const server = await openTestServer()

describe('@libsql/client', async () => {
  const database = await server.createDatabase()
  const libsql = createLibsqlClient({ ...database.config, intMode: 'bigint' } as Parameters<
    typeof createLibsqlClient
  >[0])
  afterAll(() => libsql.close())

  test('executes statements and returns values', async () => {
    await libsql.execute('create table if not exists t (a integer primary key, b)')
    const inserted = await libsql.execute({
      sql: 'insert into t values (?, ?) returning *',
      args: [2n ** 62n, 'a\0é😀'],
    })
    expect(inserted.rows[0]).toMatchObject({ a: 2n ** 62n, b: 'a\0é😀' })
    expect(inserted.lastInsertRowid).toBe(2n ** 62n)
    const { rows } = await libsql.execute({
      sql: 'select :a as a, @b as b, $c as c',
      args: { a: 1n, b: null, c: new Uint8Array([1, 2]) },
    })
    expect(rows[0]).toMatchObject({ a: 1n, b: null })
    expect(new Uint8Array(rows[0]?.['c'] as ArrayBuffer)).toEqual(new Uint8Array([1, 2]))
  })

  test('runs batch, migrate and executeMultiple', async () => {
    await libsql.executeMultiple(
      'create table if not exists m (a unique); delete from m; -- comment\ninsert into m values (1);',
    )
    await expect(
      libsql.batch(['insert into m values (2)', 'insert into m values (1)'], 'write'),
    ).rejects.toMatchObject({ code: expect.stringContaining('SQLITE_CONSTRAINT') })
    const results = await libsql.batch(
      [{ sql: 'insert into m values (?)', args: [3] }, 'select count(*) as n from m'],
      'write',
    )
    expect(results[1]?.rows[0]).toMatchObject({ n: 2n })
    await libsql.migrate(['create table if not exists n (a)', 'insert into n values (1)'])
  })

  test('commits and rolls back interactive transactions', async () => {
    const committed = await libsql.transaction('write')
    await committed.execute('create table if not exists i (a)')
    await Promise.all([1, 2, 3].map((a) => committed.execute({ sql: 'insert into i values (?)', args: [a] })))
    await committed.commit()
    const rolledBack = await libsql.transaction('write')
    await rolledBack.execute('delete from i')
    await rolledBack.rollback()
    const reader = await libsql.transaction('read')
    expect((await reader.execute('select count(*) as n from i')).rows[0]).toMatchObject({ n: 3n })
    reader.close()
  })

  test('reports errors', async () => {
    await expect(libsql.execute('selec')).rejects.toMatchObject({ code: 'SQL_PARSE_ERROR' })
    await expect(libsql.execute('select * from missing')).rejects.toThrow(/no such table/)
  })
})

describe('drizzle-kit', () => {
  let database: TestDatabase
  // a separate database, because drizzle-kit would prompt about unknown tables
  beforeAll(async () => {
    database = await server.createDatabase()
  })
  const folder = fileURLToPath(new URL('../fixtures/drizzle-kit/', import.meta.url))
  const out = mkdtempSync(join(folder, 'out-'))
  afterAll(() => rmSync(out, { recursive: true, force: true }))
  const runKit = async (...args: string[]): Promise<string> => {
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [
        fileURLToPath(import.meta.resolve('drizzle-kit')).replace(/[^/\\]+$/, 'bin.cjs'),
        ...args,
        '--config',
        'drizzle.config.ts',
      ],
      {
        cwd: folder,
        env: {
          ...process.env,
          KIT_URL: database.url,
          KIT_TOKEN: database.authToken ?? '',
          KIT_OUT: `./${out.slice(folder.length)}`,
        },
        timeout: 180_000,
      },
    )
    return stdout + stderr
  }
  const listTables = async (): Promise<unknown[]> => {
    await using db = createClient(database.config)
    return (
      await db.execute(
        "select name from sqlite_schema where type = 'table' and name in ('author', 'book') order by name",
        [],
        { rowMode: 'array' },
      )
    ).rows.flat()
  }
  const dropTables = async (): Promise<void> => {
    await using db = createClient(database.config)
    await db.batch(['drop table if exists book', 'drop table if exists author'])
  }

  test('push creates the tables, and changes nothing the second time', async () => {
    await dropTables()
    await runKit('push', '--force')
    expect(await listTables()).toEqual(['author', 'book'])
    expect(await runKit('push', '--force')).toContain('No changes detected')
    await dropTables()
  })

  test('generate writes a migration, and migrate applies it once', async () => {
    await dropTables()
    await runKit('generate', '--name', 'init')
    const file = readdirSync(out).find((name) => name.endsWith('_init.sql')) as string
    expect(readFileSync(join(out, file), 'utf8')).toContain('CREATE TABLE')
    await runKit('migrate')
    expect(await listTables()).toEqual(['author', 'book'])
    await runKit('migrate')
    await using db = createClient(database.config)
    expect((await db.execute('select count(*) as n from __drizzle_migrations')).rows).toEqual([{ n: 1 }])
  })
})
