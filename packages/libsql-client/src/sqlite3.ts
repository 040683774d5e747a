export * from 'libsql-client-original/sqlite3'
