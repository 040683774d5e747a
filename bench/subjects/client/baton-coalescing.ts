import type { Subject } from '../../lib/subject.ts'
import { openWith } from './baton.ts'

export function open(url: string): Subject {
  const { questions, close } = openWith({ url, coalesce: true })
  return { questions: { select: questions['select'], insert: questions['insert'] }, close }
}
