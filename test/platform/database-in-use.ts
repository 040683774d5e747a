import { once } from 'node:events'
import http from 'node:http'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { Harness, sql } from './platform-harness.ts'

/** Defines a table `c` with 16,000 rows. */
export const WITH_ROWS = 'WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 16000)'
/** A read of 16 MB. Socket buffers (4 to 8 MB) cannot hold it, so a cursor or a dump stays in progress until it is read. */
export const LONG_READ = `${WITH_ROWS} SELECT n, hex(zeroblob(500)) FROM c`
/** The outcome of a request. */
interface Outcome {
  readonly status: number
  /** Whether the response was complete. */
  readonly isComplete: boolean
  readonly text: string
}

/** A request whose response is not read before `outcome` is called. */
export interface UnreadResponse {
  /** Resolves when the response has begun. */
  readonly started: Promise<unknown>
  /** Reads the response. */
  outcome(): Promise<Outcome>
  abort(): void
}

/** The database that a client uses, and its token. */
export interface Client {
  readonly host: string
  readonly token: string
}

/** Sends a request and does not read the response's body. */
export function send(
  { host, token }: Client,
  method: 'GET' | 'POST',
  path: string,
  body?: object,
): UnreadResponse {
  const headers = { authorization: `Bearer ${token}` }
  const request = http.request(`http://${host}${path}`, { method, headers, agent: false })
  const started = once(request, 'response') as Promise<[http.IncomingMessage]>
  started.catch(() => {}) // reported by `outcome()`
  request.end(body === undefined ? undefined : JSON.stringify(body))
  return {
    started: started.catch(() => null),
    abort: () => void request.destroy(),
    outcome: async () => {
      try {
        const [response] = await started
        const status = response.statusCode ?? 0
        const body = await text(response as Readable).catch(() => null)
        return { status, isComplete: body !== null, text: body?.slice(0, 2_000) ?? '' }
      } catch {
        return { status: 0, isComplete: false, text: '' }
      }
    },
  }
}

/** Opens a cursor over statements. */
export function cursor(client: Client, ...statements: readonly string[]): UnreadResponse {
  return send(client, 'POST', '/v3/cursor', {
    batch: { steps: statements.map((text) => ({ stmt: { sql: text } })) },
  })
}

/** Sends a pipeline of single statements. */
export function pipeline(client: Client, ...statements: readonly string[]): UnreadResponse {
  const requests = statements.map((text) => ({ type: 'execute', stmt: { sql: text } }))
  return send(client, 'POST', '/v3/pipeline', { requests: [...requests, { type: 'close' }] })
}

/** A database with an empty table `t`, on a server of its own. */
export class DatabaseInUse implements AsyncDisposable {
  readonly harness: Harness
  readonly name: string
  readonly host: string
  readonly token: string

  private constructor(harness: Harness, name: string, { host, token }: Client) {
    this.harness = harness
    this.name = name
    this.host = host
    this.token = token
  }

  static async start(name: string): Promise<DatabaseInUse> {
    return await DatabaseInUse.create(await Harness.start(), name)
  }

  /** Creates the database on a server, which it stops when it is disposed. */
  static async create(harness: Harness, name: string): Promise<DatabaseInUse> {
    return new DatabaseInUse(harness, name, await harness.openDatabase(name, 'CREATE TABLE t (a)'))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.harness[Symbol.asyncDispose]()
  }

  get client(): Client {
    return { host: this.host, token: this.token }
  }

  /** Creates a table `long` with the rows of {@link LONG_READ}, for dumps and exports. */
  async createLongTable(): Promise<void> {
    await sql(this.host, this.token, `CREATE TABLE long AS ${LONG_READ}`)
  }

  /** Changes the configuration. */
  async configure(body: object): Promise<void> {
    await this.harness.configure(this.name, body)
  }

  /** Returns the contents of the table, read with a new token. */
  async rows(): Promise<readonly string[]> {
    const read = await sql(this.host, await this.harness.tokenFor(this.name), 'SELECT a FROM t ORDER BY a')
    if (read.error !== null) throw new Error(read.error)
    return read.rows.map(([a]) => String(a))
  }
}

/** A change after which the old token, or every token, has less access. */
export interface AccessChange {
  readonly name: string
  /** Whether it also ends requests that only read. */
  readonly endsReaders: boolean
  /** Resolves when the change is acknowledged. */
  change(database: DatabaseInUse): Promise<void>
  /** Allows new tokens to read the table again, but not to write it. */
  restoreReads?(database: DatabaseInUse): Promise<void>
}

const post = async ({ harness }: DatabaseInUse, path: string, body?: object): Promise<void> =>
  void (await harness.requestOk('POST', path, { ...(body && { body }) }))

/** Every way in which access to a database ends, if the database still exists afterwards. */
export const ACCESS_CHANGES: readonly AccessChange[] = [
  {
    name: "a rotation of the database's tokens",
    endsReaders: true,
    change: (database) => post(database, `databases/${database.name}/auth/rotate`),
  },
  {
    name: "a rotation of the group's tokens",
    endsReaders: true,
    change: (database) => post(database, 'groups/default/auth/rotate'),
  },
  {
    name: 'a transfer to another group',
    endsReaders: true,
    change: async (database) => {
      const { harness, name } = database
      await post(database, 'groups', { name: `other-${name}`, location: 'local' })
      await post(database, `databases/${name}/transfer`, {
        org: harness.platform.organization,
        group: `other-${name}`,
      })
    },
  },
  {
    name: 'block_reads',
    endsReaders: true,
    change: (database) => database.configure({ block_reads: true }),
    restoreReads: (database) => database.configure({ block_reads: false, block_writes: true }),
  },
  {
    name: 'allowed_ips',
    endsReaders: true,
    change: (database) => database.configure({ allowed_ips: ['10.0.0.1'] }),
    restoreReads: (database) => database.configure({ allowed_ips: [], block_writes: true }),
  },
  {
    name: 'archiving the group',
    endsReaders: true,
    change: ({ harness }) => harness.platform.archiveGroup('default'),
    restoreReads: async (database) => {
      await database.configure({ block_writes: true })
      await post(database, 'groups/default/unarchive')
    },
  },
  {
    name: 'block_writes',
    endsReaders: false,
    change: (database) => database.configure({ block_writes: true }),
  },
]
