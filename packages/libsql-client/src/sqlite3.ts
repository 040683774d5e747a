// Files, which only the original supports.
export * from 'libsql-client-original/sqlite3'
