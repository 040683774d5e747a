import type { Subject } from '../../lib/subject.ts'
import { openWith } from './baton.ts'

export const open = (url: string): Subject =>
  openWith({ url, requestTimeoutMs: Infinity, transactionTimeoutMs: Infinity })
