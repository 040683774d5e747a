import { createClient } from '@batonsql/libsql-client/http'
import type { Subject } from '../../lib/subject.ts'
import { subjectOf } from './libsql-client.ts'

export const open = (url: string): Subject => subjectOf(createClient({ url, intMode: 'bigint' }))
