import { env, exit } from 'node:process'
import { type Settings, scenario } from './scenario.ts'

// The scenario as a program, for node, Bun and Deno. With FAKE_TIMERS, timers never fire, as in a test: calls must not wait for them.

if (env['FAKE_TIMERS'] !== undefined) {
  const timer = { ref: () => timer, unref: () => timer, refresh: () => timer, hasRef: () => false }
  const startTimer = () => timer
  Object.assign(globalThis, { setImmediate: startTimer, setInterval: startTimer, setTimeout: startTimer })
}
console.log(await scenario(JSON.parse(env['SETTINGS'] ?? '{}') as Settings))
// the connections of node's `fetch` wait for timers that never fire
if (env['FAKE_TIMERS'] !== undefined) exit()
