export { ALLOWED_FUNCTIONS, ALLOWED_TABLE_FUNCTIONS } from './sql/allowed-functions.ts'
export { identifier, nextToken, scanSql, splitStatements, type Token, upper } from './sql/scanner.ts'
export {
  firstStatement,
  formatPosition,
  lineAndColumn,
  parseError,
  parseStatements,
  type Statement,
} from './sql/statement.ts'
export { boundSearches } from './sql/vector-search.ts'
