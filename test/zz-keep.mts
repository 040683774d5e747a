// keep-alive: the test process blocks longer than the server keeps an idle connection
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { RunServer } from '../packages/local-server/src/testing/run-server.ts'
const child = fork('packages/local-server/src/run-server.ts', [], { execArgv: process.execArgv })
const [url] = await once(child, 'message') as [string]
const server = new RunServer(url)
for (const ms of [0, 4500, 6000, 8000, 70000]) {
  await server.take(null)
  await new Promise((r) => setTimeout(r, 20))
  const until = performance.now() + ms
  while (performance.now() < until);
  try { const d = await server.take(null); console.log(ms, 'ok', d.name) } catch (e) { console.log(ms, String(e)) }
}
child.disconnect()
