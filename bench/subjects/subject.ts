/** A way to reach the database, as the benchmark uses it. */
export interface Subject {
  /** One SELECT by primary key. */
  select(id: number): Promise<unknown>
  /** A transaction of three awaited statements. */
  transaction(id: number): Promise<unknown>
  /** 10,000 rows of six columns, with 64-bit integers exact. */
  rows(): Promise<number>
  close(): Promise<unknown>
}

export const SELECT = 'select id, name from item where id = ?'
export const TRANSACTION = [
  'select cents from account where id = ?',
  'update account set cents = cents - 1 where id = ?',
  'update account set cents = cents + 1 where id = ?',
] as const
export const ROWS = 'select a, b, c, d, e, f from wide'
