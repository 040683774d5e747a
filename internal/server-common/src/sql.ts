export { ALLOWED_FUNCTIONS, ALLOWED_TABLE_FUNCTIONS } from './sql/allowed-functions.ts'
export { deferTransactions } from './sql/defer-transactions.ts'
export { memoize } from './sql/memoize.ts'
export {
  getKeyword,
  scanSql,
  splitStatements,
  type Token,
  unquoteIdentifier,
  visitTokens,
} from './sql/scanner.ts'
export {
  formatPosition,
  getLineAndColumn,
  parseError,
  parseFirstStatement,
  parseStatements,
  type Statement,
} from './sql/statement.ts'
export { limitVectorSearches } from './sql/vector-search.ts'
