import type { Subject } from '../../lib/subject.ts'
import { openWith } from './baton.ts'

export const open = (url: string): Subject => openWith({ url, maxRetries: 0, readYourWrites: false })
