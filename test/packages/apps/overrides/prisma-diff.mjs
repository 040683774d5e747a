// Prints the output of `prisma migrate diff --from-schema A --to-schema B --script`, with the WebAssembly build of Prisma's schema
// engine, because the command itself downloads a binary from another host. Without A, it starts from an empty database.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { PrismaLibSql } from '@prisma/adapter-libsql'
import { bindMigrationAwareSqlAdapterFactory } from '@prisma/driver-adapter-utils'
import * as engine from '@prisma/schema-engine-wasm/schema_engine_bg'

const { resolve } = createRequire(import.meta.url)
const wasm = readFileSync(resolve('@prisma/schema-engine-wasm/schema_engine_bg').replace(/\.js$/, '.wasm'))
const { instance } = await WebAssembly.instantiate(wasm, { './schema_engine_bg.js': engine })
engine.__wbg_set_wasm(instance.exports)
instance.exports.__wbindgen_start?.()

const adapter = bindMigrationAwareSqlAdapterFactory(new PrismaLibSql({ url: process.env.DATABASE_URL }))
const schemaEngine = await engine.SchemaEngine.new({}, () => {}, adapter)
const schemaFile = (path) => ({
  tag: 'schemaDatamodel',
  files: [{ path, content: readFileSync(path, 'utf8') }],
})
const [to, from] = process.argv.slice(2).toReversed()
const { stdout } = await schemaEngine.diff({
  from: from === undefined ? { tag: 'empty' } : schemaFile(from),
  to: schemaFile(to),
  script: true,
  shadowDatabaseUrl: null,
  exitCode: null,
  filters: { externalTables: [], externalEnums: [] },
})
console.log(stdout)
process.exit(0)
