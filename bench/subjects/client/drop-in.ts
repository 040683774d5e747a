import { createClient } from '@batonsql/libsql-client/http'
import type { Subject } from '../../lib/subject.ts'
import { createSubject } from './libsql-client.ts'

export const open = (url: string): Subject => createSubject(createClient({ url, intMode: 'bigint' }))
