export * from '../dist/sqlite3.js'
