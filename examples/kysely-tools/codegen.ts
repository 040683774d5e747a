// Writes the types of the database's tables: `node codegen.ts database.d.ts`. kysely-codegen's command line supports no dialects
// but its own, so it is called as a library; the types of libSQL are those of any SQLite.
import { BatonDialect } from '@batonsql/kysely-dialect'
import { Kysely } from 'kysely'
import { generate, LibsqlDialect } from 'kysely-codegen'

const db = new Kysely<unknown>({
  dialect: new BatonDialect({
    url: process.env['DATABASE_URL'] ?? 'http://127.0.0.1:8080',
    authToken: process.env['DATABASE_TOKEN'],
  }),
})
try {
  await generate({
    db,
    dialect: new LibsqlDialect(),
    outFile: process.argv[2] ?? 'database.d.ts',
    typeMapping: { blob: 'Uint8Array' },
    postprocess: async ({ metadata }) => {
      // SQLite says of an integer primary key that it may be null, and never lets it
      for (const { columns } of metadata.tables)
        for (const column of columns) if (column.isAutoIncrementing) column.isNullable = false
      return metadata
    },
  })
} finally {
  await db.destroy()
}
