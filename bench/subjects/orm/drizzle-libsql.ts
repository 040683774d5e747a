import { createClient } from '@libsql/client/http'
import { drizzle } from 'drizzle-orm/libsql'
import type { Subject } from '../../lib/subject.ts'
import { openWithDatabase } from './drizzle-operations.ts'
import { schema } from './schema.ts'

export function open(url: string): Subject {
  const client = createClient({ url })
  return openWithDatabase(drizzle(client, { schema }), async () => client.close())
}
