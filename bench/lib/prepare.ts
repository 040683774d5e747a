import { createClient } from '@batonsql/core'

const withNumbers = (count: number): string =>
  `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})`

/** Creates the tables that the benchmarks use. */
export async function prepare(url: string, authToken?: string): Promise<void> {
  await using db = createClient({ url, authToken })
  await db.batch([
    ...['item', 'account', 'wide', 'log', 'post', 'vector'].map((name) => `drop table if exists ${name}`),
    'create table item (id integer primary key, name text)',
    `insert into item ${withNumbers(1_000)} select i, 'item number ' || i from n`,
    'create table account (id integer primary key, cents integer)',
    `insert into account ${withNumbers(1_000)} select i, 100000 from n`,
    'create table wide (a integer, b text, c real, d blob, e text, f integer)',
    `insert into wide ${withNumbers(10_000)} select i, 'name of row ' || i, i * 1.25, randomblob(32), null, 9007199254740993 + i from n`,
    'create table log (a integer, b text)',
    'create table post (id integer primary key, item_id integer, title text)',
    `insert into post ${withNumbers(3_000)} select i, i % 1000 + 1, 'post number ' || i from n`,
    'create index post_item on post (item_id)',
    'create table vector (id integer primary key, embedding blob)',
    `insert into vector ${withNumbers(1_000)} select i, randomblob(384 * 4) from n`,
  ])
}
