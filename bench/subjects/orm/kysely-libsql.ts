import { LibsqlDialect } from '@libsql/kysely-libsql'
import type { Subject } from '../../lib/subject.ts'
import { overDialect } from './kysely-operations.ts'

export const open = (url: string): Promise<Subject> => overDialect(new LibsqlDialect({ url }))
