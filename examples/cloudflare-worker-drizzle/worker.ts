import { drizzle, isUniqueViolation } from '@batonsql/drizzle-driver'
import { asc } from 'drizzle-orm'
import { guest, visit } from './schema.ts'

interface Env {
  readonly DATABASE_URL: string
  readonly DATABASE_TOKEN: string
}

/** The cookie for the replication index, from which a replica determines whether it has a visitor's own writes. */
const COOKIE_NAME = 'replication-index'

export default {
  async fetch(
    request: Request,
    env: Env,
    context: { waitUntil(work: Promise<unknown>): void },
  ): Promise<Response> {
    // One client per request: in a Worker, a request cannot wait for the I/O of another. Creating a client opens no connection.
    const [, minReplicationIndex] =
      new RegExp(`\\b${COOKIE_NAME}=(\\d{1,18})\\b`).exec(request.headers.get('cookie') ?? '') ?? []
    const connection = { url: env.DATABASE_URL, authToken: env.DATABASE_TOKEN, minReplicationIndex }
    const db = drizzle({ connection })
    try {
      if (request.method === 'POST') {
        const { name } = (await request.json()) as { name: string }
        const [newGuest] = await db.insert(guest).values({ name }).returning()
        const cookie = `${COOKIE_NAME}=${db.$client.replicationIndex}; Path=/; HttpOnly; Secure; SameSite=Lax`
        return Response.json(newGuest, { status: 201, headers: { 'set-cookie': cookie } })
      }
      return Response.json(await db.select().from(guest).orderBy(asc(guest.id)))
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      return Response.json({ error: 'that name is taken' }, { status: 409 })
    } finally {
      // The response does not wait for this work, but the Worker keeps running until it has finished.
      const visitRecorded = db.insert(visit).values({ method: request.method }).execute()
      context.waitUntil(Promise.all([visitRecorded, db.$client.close({ drainMs: 5_000 })]))
    }
  },
}
