import { type Settings, scenario } from './scenario.ts'

// The scenario as a script for Vercel's edge-runtime, which receives its settings with the request.

interface FetchEvent {
  readonly request: Request
  respondWith(response: Promise<Response>): void
}
declare const addEventListener: (type: 'fetch', listener: (event: FetchEvent) => void) => void

const reply = async (request: Request): Promise<Response> =>
  new Response(await scenario((await request.json()) as Settings).catch(String))

addEventListener('fetch', (event) => event.respondWith(reply(event.request)))
