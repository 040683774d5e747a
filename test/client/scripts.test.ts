import { executeMultiple } from '@batonsql/core'
import { splitStatements } from '@batonsql/core/adapter'
import { beforeEach, describe, expect, test } from 'vitest'
import { readColumn } from '../support/fixtures.ts'
import { openTestClient } from '../support/test-server.ts'

const { database, db } = await openTestClient()
beforeEach(() => db.batch(['drop table if exists t', 'create table t (a unique)']))
const readValues = () => readColumn(db, 'select a from t order by a')

describe('executeMultiple', () => {
  test('runs a script in one request, and closes the stream', async () => {
    const before = database.requestCount()
    await executeMultiple(
      db,
      `-- a comment; with a semicolon
       insert into t values (1); insert into t values ('a;b');
       create trigger if not exists t_more after insert on t when new.a = 5 begin
         insert into t values (6); insert into t values (7);
       end;
       insert into t values (5)`,
    )
    // the stream is new, so closing it takes a separate request
    expect(database.requestCount() - before).toBe(2)
    expect(await readValues()).toEqual([1, 5, 6, 7, 'a;b'])
  })

  test('outside a transaction, each statement is committed separately, until one fails', async () => {
    const script = 'insert into t values (1);\ninsert into t values (1);\ninsert into t values (2)'
    await expect(executeMultiple(db, script)).rejects.toMatchObject({
      code: 'SQLITE_CONSTRAINT',
      extendedCode: 'SQLITE_CONSTRAINT_UNIQUE',
      statementIndex: 1,
      sql: 'insert into t values (1)',
      message: expect.stringMatching(/^line 2, column 1: .*UNIQUE constraint failed: t\.a$/),
    })
    expect(await readValues()).toEqual([1])
  })

  test('statements between BEGIN and COMMIT are atomic', async () => {
    const validScript =
      'insert into t values (0); begin; insert into t values (1); insert into t values (2); commit;'
    await executeMultiple(db, validScript)
    expect(await readValues()).toEqual([0, 1, 2])
    const invalidScript =
      'insert into t values (10);\nbegin immediate;\ninsert into t values (11); insert into t values (1);\nend;\ninsert into t values (12);'
    await expect(executeMultiple(db, invalidScript)).rejects.toMatchObject({
      code: 'SQLITE_CONSTRAINT',
      statementIndex: 3,
      message: expect.stringMatching(/^line 3, column 28: /),
    })
    expect(await readValues()).toEqual([0, 1, 2, 10])
  })

  test('supports ROLLBACK and savepoints in a script', async () => {
    await executeMultiple(
      db,
      `begin; insert into t values (1); rollback;
       begin; insert into t values (2); savepoint x; insert into t values (3); rollback to x; release x; commit`,
    )
    expect(await readValues()).toEqual([2])
  })

  // recordings 62, 230, 251: the server runs the statements before the invalid one, and silently drops the rest
  test.each([
    ['insert into t values (1); selec', 'line 1, column 27', 1],
    ['insert into t values (1); SELECT', 'line 1, column 27', 1],
    ['insert into t values (1);\n\ninsert into t', 'line 3, column 1', 1],
    ['selec; insert into t values (1)', 'line 1, column 1', 0],
    ['begin; insert into t values (1); selec; insert into t values (2); commit', 'line 1, column 34', 2],
    ['begin; selec; commit', 'line 1, column 8', 1],
    // only Turso's engine parses it
    ['select 1; begin concurrent; insert into t values (1); commit', 'line 1, column 11', 1],
    ['begin concurrent; selec; insert into t values (1); commit', 'line 1, column 1', 0],
  ])('nothing runs if a statement is invalid: %j', async (script, position, index) => {
    await expect(executeMultiple(db, script)).rejects.toMatchObject({
      name: 'SqlError',
      statementIndex: index,
      message: expect.stringContaining(`${position}: `),
    })
    expect(await readValues()).toEqual([])
  })

  test('an error of COMMIT has its position', async () => {
    const script = `create table parent (id integer primary key);
      create table child (parent references parent deferrable initially deferred);
      pragma foreign_keys = on;
      begin; insert into child values (1); insert into t values (1);
      commit`
    await expect(executeMultiple(db, script)).rejects.toMatchObject({
      name: 'SqlError',
      code: 'SQLITE_CONSTRAINT',
      statementIndex: 6,
      message: expect.stringContaining('line 5, column 7: '),
    })
    expect(await readValues()).toEqual([])
  })

  test.each([
    "insert into t values (1); insert into t values ('a",
    'insert into t values (1); /* insert',
    'insert into t values (1); begin; insert into t values (2)',
    'insert into t values (1); commit',
    'insert into t values (1); begin quickly; insert into t values (2); commit',
    'insert into t values (1); begin garbage; commit',
    'insert into t values (1); begin; insert into t values (2); commit and chain',
    'savepoint a; insert into t values (1); insert into t values (2)',
    'savepoint a; insert into t values (1); release a',
    'insert into t values (1); create trigger x after insert on t begin select 1;',
  ])('nothing is sent if the client rejects the script: %j', async (script) => {
    const before = database.requestCount()
    await expect(executeMultiple(db, script)).rejects.toThrow(SyntaxError)
    expect(database.requestCount()).toBe(before)
  })

  test('a literal of nearly 5 MB is accepted', async () => {
    await executeMultiple(db, `insert into t values (x'${'ab'.repeat(4_900_000)}'); insert into t values (1)`)
    expect((await db.execute('select sum(length(a)) as n from t')).rows).toEqual([{ n: 4_900_001 }])
  })

  test.each(['', ' ; -- nothing\n', 'begin; commit'])(
    'a script without statements sends nothing: %j',
    async (script) => {
      const before = database.requestCount()
      await executeMultiple(db, script)
      expect(database.requestCount()).toBe(before)
    },
  )

  test('a script longer than a request is atomic if it has its own transaction', async () => {
    const value = 'x'.repeat(2_000)
    const inserts = Array.from({ length: 1_500 }, (_, i) => `insert into t values ('${i} ${value}');`)
    await executeMultiple(db, `begin;\n${inserts.join('\n')}\ncommit;`)
    expect(await readValues()).toHaveLength(1_500)
    await db.execute('delete from t')
    const broken = [...inserts, inserts[0]]
    await expect(executeMultiple(db, `begin;\n${broken.join('\n')}\ncommit;`)).rejects.toMatchObject({
      code: 'SQLITE_CONSTRAINT',
      statementIndex: 1_501,
      message: expect.stringMatching(/^line 1502, column 1: /),
    })
    expect(await readValues()).toEqual([])
  })

  test('a whole script runs as one transaction if its statements are sent as a batch', async () => {
    const script = 'insert into t values (1); insert into t values (1)'
    await expect(db.batch(splitStatements(script))).rejects.toMatchObject({ statementIndex: 1 })
    expect(await readValues()).toEqual([])
  })

  test('restores a dump', async () => {
    const dump = `PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE child2 (id integer primary key, parent references parent2);
INSERT INTO child2 VALUES(1,7);
CREATE TABLE parent2 (id integer primary key);
INSERT INTO parent2 VALUES(7);
CREATE TRIGGER parent2_gone AFTER DELETE ON parent2 BEGIN DELETE FROM child2 WHERE parent = old.id; END;
COMMIT;
`
    await executeMultiple(db, `drop table if exists child2; drop table if exists parent2; ${dump}`)
    expect((await db.execute('select id, parent from child2')).rows).toEqual([{ id: 1, parent: 7 }])
    // foreign keys are enabled again, and the trigger exists
    await expect(db.execute('insert into child2 values (2, 8)')).rejects.toMatchObject({
      extendedCode: 'SQLITE_CONSTRAINT_FOREIGNKEY',
    })
  })
})
