import { getKeyword, scanSql, splitStatements } from './scanner.ts'

/** Replaces BEGIN IMMEDIATE and BEGIN EXCLUSIVE with BEGIN, for senders who may not hold the write lock. */
export function deferTransactions(sql: string): string {
  if (!/immediate|exclusive/i.test(sql)) return sql
  const pieces: string[] = []
  let copiedEnd = 0
  for (const { tokens } of splitStatements(sql, scanSql(sql))) {
    const [first, second] = tokens
    const isLocking = ['IMMEDIATE', 'EXCLUSIVE'].includes(getKeyword(sql, second))
    if (getKeyword(sql, first) !== 'BEGIN' || second === undefined || !isLocking) continue
    pieces.push(sql.slice(copiedEnd, second.start), 'DEFERRED')
    copiedEnd = second.end
  }
  return pieces.join('') + sql.slice(copiedEnd)
}
