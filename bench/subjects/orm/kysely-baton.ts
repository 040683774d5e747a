import { BatonDialect } from '@batonsql/kysely-dialect'
import type { Subject } from '../../lib/subject.ts'
import { overDialect } from './kysely-operations.ts'

export const open = (url: string): Promise<Subject> => overDialect(new BatonDialect({ url }))
