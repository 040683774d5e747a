import { type Client, isUniqueViolation } from '@batonsql/core'
import { Hono } from 'hono'

/** Creates the routes for a database. */
export function createApp(db: Client): Hono {
  const app = new Hono()

  app.get('/guests', async (context) => {
    const { rows } = await db.execute('select id, name from guest order by id')
    return context.json(rows)
  })

  app.post('/guests', async (context) => {
    const { name } = await context.req.json<{ name: string }>()
    const { rows } = await db.execute('insert into guest (name) values (?) returning id, name', [name])
    return context.json(rows[0], 201)
  })

  app.onError((error, context) => {
    if (isUniqueViolation(error)) return context.json({ error: 'that name is taken' }, 409)
    console.error(error)
    return context.json({ error: 'something went wrong' }, 500)
  })

  return app
}
