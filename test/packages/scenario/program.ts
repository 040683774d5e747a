import { env } from 'node:process'
import { type Settings, scenario } from './scenario.ts'

// The scenario as a program, for node, Bun and Deno.

console.log(await scenario(JSON.parse(env['SETTINGS'] ?? '{}') as Settings))
