export const cut = (sql: string, length: number): string =>
  sql.length > length ? `${sql.slice(0, length)}…` : sql

/** A statement in a message, cut. */
export const quoteSql = (sql = ''): string => `"${cut(sql, 60)}"`
