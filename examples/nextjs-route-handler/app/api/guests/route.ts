import { isUniqueViolation } from '@batonsql/drizzle-driver'
import { asc } from 'drizzle-orm'
import { database, guest } from '../../../database'

/** Runs GET for each request; without this, `next build` may run it once, and serve that response forever. */
export const dynamic = 'force-dynamic'
/** On this runtime, queries have their own connections, and never use the `fetch` that Next.js caches. */
export const runtime = 'nodejs'

export async function GET(): Promise<Response> {
  return Response.json(await database().select().from(guest).orderBy(asc(guest.id)))
}

export async function POST(request: Request): Promise<Response> {
  const { name } = (await request.json()) as { name: string }
  try {
    const [newGuest] = await database().insert(guest).values({ name }).returning()
    return Response.json(newGuest, { status: 201 })
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    return Response.json({ error: 'that name is taken' }, { status: 409 })
  }
}
