import { coalesce } from '@batonsql/core'
import type { Subject } from '../../lib/subject.ts'
import { openWith } from './baton.ts'

export function open(url: string): Subject {
  const { questions, close } = openWith({ url, coalesce })
  return { questions: { select: questions['select'], insert: questions['insert'] }, close }
}
