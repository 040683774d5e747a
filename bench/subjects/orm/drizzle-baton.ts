import { createClient } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import type { Subject } from '../../lib/subject.ts'
import { openWithDatabase } from './drizzle-operations.ts'
import { schema } from './schema.ts'

export function open(url: string): Subject {
  const client = createClient({ url })
  return openWithDatabase(drizzle({ client, schema }), () => client.close())
}
