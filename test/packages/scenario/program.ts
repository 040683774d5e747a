import { env } from 'node:process'
import { type Settings, scenario } from './scenario.ts'

// The scenario where there are programs: node, Bun, Deno.

console.log(await scenario(JSON.parse(env['SETTINGS'] ?? '{}') as Settings))
