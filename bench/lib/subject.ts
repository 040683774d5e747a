/** Performs one operation. @param index a different number each time */
export type RunOperation = (index: number) => Promise<unknown>

/** A client as the benchmark uses it: the operations that it supports, by name. */
export interface Subject {
  readonly operations: Readonly<Record<string, RunOperation | undefined>>
  close(): Promise<unknown>
}

/** The exports of a file in `subjects/`. */
export interface SubjectModule {
  /** @param token empty for none */
  readonly open: (url: string, token: string) => Subject | Promise<Subject>
}

/** Ids range from 1 to this number. */
export const IDS = 1_000
export const toId = (index: number): number => (index % IDS) + 1

export const SELECT = 'select id, name from item where id = ?'
export const INSERT = 'insert into log (a, b) values (?, ?)'
export const TRANSACTION = [
  'select cents from account where id = ?',
  'update account set cents = cents - 1 where id = ?',
  'update account set cents = cents + 1 where id = ?',
] as const
/** 10,000 rows of six columns, with integers beyond 2^53. */
export const ROWS = 'select a, b, c, d, e, f from wide'
export const ROW_COUNT = 10_000
/** 1,000 vectors of 384 floats. */
export const VECTORS = 'select id, embedding from vector'
export const VECTOR_COUNT = 1_000
/** 50 MB in 50,000 rows. */
export const CURSOR =
  'with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000) select i, hex(zeroblob(500)) from n'
