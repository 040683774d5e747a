import { env } from 'node:process'
import { createClient } from '@batonsql/core'
import type { Settings } from './scenario.ts'

// Jest's fake timers replace queueMicrotask, too. Not part of `program.ts`, because Node's own `fetch` does not work without it.

const { url, authToken } = JSON.parse(env['SETTINGS'] ?? '{}') as Settings
globalThis.queueMicrotask = () => undefined
const db = createClient({ url, authToken })
await db.execute('select 1')
await db.close()
console.log('closed')
