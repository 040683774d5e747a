import { BatonDialect, isUniqueViolation } from '@batonsql/kysely-dialect'
import { type Generated, Kysely } from 'kysely'

interface Database {
  guest: { id: Generated<number>; name: string }
}

/** The parts of an API Gateway or function URL event (payload 2.0) that this example uses. */
interface Event {
  readonly requestContext: { readonly http: { readonly method: string } }
  readonly body?: string
}
interface HttpResult {
  readonly statusCode: number
  readonly body: string
}

// In module scope, so that a warm function already has its connection. There is no need to close it: no timer keeps the
// process alive, and a connection that was lost while the function was frozen is replaced.
const db = new Kysely<Database>({
  dialect: new BatonDialect({
    url: process.env['DATABASE_URL'] ?? '',
    // called before every request; it could fetch the token from a secret store
    authToken: async () => process.env['DATABASE_TOKEN'] ?? '',
  }),
})

export async function handler({ requestContext, body = '{}' }: Event): Promise<HttpResult> {
  if (requestContext.http.method === 'POST') {
    const { name } = JSON.parse(body) as { name: string }
    try {
      const newGuest = await db.insertInto('guest').values({ name }).returningAll().executeTakeFirstOrThrow()
      return { statusCode: 201, body: JSON.stringify(newGuest) }
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      return { statusCode: 409, body: JSON.stringify({ error: 'that name is taken' }) }
    }
  }
  const guests = await db.selectFrom('guest').selectAll().orderBy('id').execute()
  return { statusCode: 200, body: JSON.stringify(guests) }
}
