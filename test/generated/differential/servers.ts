import { randomUUID } from 'node:crypto'
import { startLocalServer } from '@batonsql/local-server'
import { startSqldChild } from '@batonsql/sqld-gateway/process'
import type { Subject } from './run-sequence.ts'

/** Special properties of a database. */
interface SubjectKind {
  readonly allowAttach?: boolean
  readonly isSchema?: boolean
  /** The `name` of the database whose schema it shares. */
  readonly schema?: string
}

/** A database with the server's name for it. */
export type NamedSubject = Subject & AsyncDisposable & { readonly name: string }

/** A server on which fresh databases can be created. Disposing of a database removes it. */
export interface SubjectSource extends AsyncDisposable {
  create(kind?: SubjectKind): Promise<NamedSubject>
}

/** Starts the embedded server as a source of databases. */
export async function startEmbeddedSource(): Promise<SubjectSource> {
  const server = await startLocalServer({ dialect: 'sqld' })
  let count = 0
  return {
    async create(kind = {}) {
      count += 1
      const name = `d${count}`
      await server.createDatabase(name, kind)
      return {
        name,
        url: `${server.url}/${name}`,
        headers: {},
        [Symbol.asyncDispose]: () => server.deleteDatabase(name),
      }
    },
    [Symbol.asyncDispose]: () => server.close(),
  }
}

/** Starts the real server as a source of databases, without a Baton server in front of it. */
export async function startSqldSource(): Promise<SubjectSource> {
  const server = await startSqldChild({ namespaces: true })
  return {
    async create({ allowAttach = false, isSchema = false, schema }: SubjectKind = {}) {
      const name = randomUUID()
      const settings = { allow_attach: allowAttach, block_reads: false, block_writes: false }
      await server.admin.create(name, settings, {
        ...(isSchema && { shared_schema: true }),
        ...(schema !== undefined && { shared_schema_name: schema }),
      })
      return {
        name,
        url: server.url,
        headers: { 'x-namespace-bin': Buffer.from(name).toString('base64').replace(/=+$/, '') },
        [Symbol.asyncDispose]: () => server.admin.remove(name),
      }
    },
    [Symbol.asyncDispose]: () => server.close(),
  }
}
