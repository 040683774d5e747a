import { isUniqueViolation } from '@batonsql/drizzle-driver'
import { asc } from 'drizzle-orm'
import { database, guest } from '../../../database'

/** Run for each request: without it `next build` may run GET once, and serve its answer for ever. */
export const dynamic = 'force-dynamic'
/** Here queries have connections of their own, and never pass through the `fetch` that Next.js caches. */
export const runtime = 'nodejs'

export async function GET(): Promise<Response> {
  return Response.json(await database().select().from(guest).orderBy(asc(guest.id)))
}

export async function POST(request: Request): Promise<Response> {
  const { name } = (await request.json()) as { name: string }
  try {
    const [added] = await database().insert(guest).values({ name }).returning()
    return Response.json(added, { status: 201 })
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    return Response.json({ error: 'that name is taken' }, { status: 409 })
  }
}
