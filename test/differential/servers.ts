import { randomUUID } from 'node:crypto'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'
import type { Subject } from './run-sequence.ts'

/** Makes a fresh database, and removes it. */
export interface SubjectSource extends AsyncDisposable {
  create(): Promise<Subject & AsyncDisposable>
}

/** Databases of the embedded server. */
export async function embeddedSubjects(): Promise<SubjectSource> {
  const server = await startLocalServer({ dialect: 'sqld' })
  let count = 0
  return {
    async create() {
      count += 1
      const name = `d${count}`
      await server.createDatabase(name)
      return {
        url: `${server.url}/${name}`,
        headers: {},
        [Symbol.asyncDispose]: () => server.removeDatabase(name),
      }
    },
    [Symbol.asyncDispose]: () => server.close(),
  }
}

/** Databases of the real server, without anything of ours in front of it. */
export async function sqldSubjects(): Promise<SubjectSource> {
  const server = await startSqld({ namespaces: true })
  return {
    async create() {
      const name = randomUUID()
      await server.admin.create(name, { allow_attach: false, block_reads: false, block_writes: false })
      return {
        url: server.url,
        headers: { 'x-namespace-bin': Buffer.from(name).toString('base64').replace(/=+$/, '') },
        [Symbol.asyncDispose]: () => server.admin.remove(name),
      }
    },
    [Symbol.asyncDispose]: () => server.close(),
  }
}
