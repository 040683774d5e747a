import { BatonDialect } from '@batonsql/kysely-dialect'
import { defineConfig } from 'kysely-ctl'

export default defineConfig({
  dialect: new BatonDialect({
    url: process.env['DATABASE_URL'] ?? 'http://127.0.0.1:8080',
    authToken: process.env['DATABASE_TOKEN'],
  }),
  migrations: { migrationFolder: 'migrations' },
})
