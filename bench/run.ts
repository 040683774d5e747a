// npm run bench [-- --rounds N] [-- --url URL]: the hot path beside raw undici and peers, and what importing costs.
import { execSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { startSqld } from '@batonsql/local-server/sqld'
import { measureHotPath } from './hot-path.ts'
import { measureImports } from './import-cost.ts'

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '15' }, url: { type: 'string' } },
})
const rounds = Number(values.rounds)
if (!Number.isInteger(rounds) || rounds < 1) throw new RangeError('--rounds must be an integer from 1 up')

const sqld = values.url === undefined ? await startSqld({ namespaces: false }) : null
const url = values.url ?? sqld?.url ?? ''
await using db = createClient({ url })
const server = await db.version()
console.log(
  `${server}, node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? 'cpu'}, ${rounds} rounds\n`,
)

const hotPath = await measureHotPath(url, rounds)
for (const { title, target, ratio, wallMicros, cpuMicros } of hotPath) {
  console.log(`${title} (ratio to raw undici, target ${target})`)
  console.table(
    Object.fromEntries(
      Object.entries(ratio).map(([name, value]) => [
        name,
        {
          ratio: value.toFixed(2),
          'wall µs': wallMicros[name as keyof typeof ratio].toFixed(1),
          'client CPU µs': cpuMicros[name as keyof typeof ratio].toFixed(2),
        },
      ]),
    ),
  )
}

execSync('pnpm --filter @batonsql/core run build', { stdio: 'ignore' })
const imports = measureImports(15)
console.log('import, over a bare node (target for core: <= 5 ms)')
console.table(Object.fromEntries(imports.map(({ module, ms }) => [module, { ms: ms.toFixed(1) }])))

const results = {
  date: new Date().toISOString(),
  server,
  node: process.version,
  cpu: cpus()[0]?.model,
  cores: cpus().length,
  rounds,
  hotPath,
  imports,
}
const file = fileURLToPath(new URL('results/hot-path.json', import.meta.url))
writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`)
console.log(`kept in ${file}`)
await sqld?.close()
