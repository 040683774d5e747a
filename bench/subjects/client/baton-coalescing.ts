import { coalesce } from '@batonsql/core'
import type { Subject } from '../../lib/subject.ts'
import { openWith } from './baton.ts'

export function open(url: string): Subject {
  const { operations, close } = openWith({ url, coalesce })
  return { operations: { select: operations['select'], insert: operations['insert'] }, close }
}
