import { LibsqlDialect } from '@libsql/kysely-libsql'
import type { Subject } from '../../lib/subject.ts'
import { openWithDialect } from './kysely-operations.ts'

export const open = (url: string): Promise<Subject> => openWithDialect(new LibsqlDialect({ url }))
