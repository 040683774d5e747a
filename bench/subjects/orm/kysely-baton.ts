import { BatonDialect } from '@batonsql/kysely-dialect'
import type { Subject } from '../../lib/subject.ts'
import { openWithDialect } from './kysely-operations.ts'

export const open = (url: string): Promise<Subject> => openWithDialect(new BatonDialect({ url }))
