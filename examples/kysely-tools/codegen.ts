// Writes the types of the database's tables: `node codegen.ts database.d.ts`. The kysely-codegen CLI supports only its own
// dialects, so it is called as a library; libSQL has the same types as SQLite.
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
      // SQLite reports an integer primary key as nullable, although it never is
      for (const { columns } of metadata.tables)
        for (const column of columns) if (column.isAutoIncrementing) column.isNullable = false
      return metadata
    },
  })
} finally {
  await db.destroy()
}
