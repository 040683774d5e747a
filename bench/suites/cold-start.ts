// Measures whole processes, run in turn: the time from start to the first row, and the cost of importing a package.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { type Measurement, toMeasurement } from '../lib/results.ts'
import { SELECT } from '../lib/subject.ts'

const folder = fileURLToPath(new URL('../.cold/', import.meta.url))
const check = (row: string): string => `if (String(${row}) !== '1') throw new Error('no row')`
const body = JSON.stringify({
  requests: [
    { type: 'execute', stmt: { sql: SELECT, args: [{ type: 'integer', value: '1' }] } },
    { type: 'close' },
  ],
})

/** Programs that read one row and exit. */
const createPrograms = (url: string): Record<string, string> => ({
  'built-in fetch': `const response = await fetch('${url}/v2/pipeline', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '${body}' })
const { results } = await response.json()
${check('results[0].response.result.rows[0][0].value')}`,
  baton: `import { createClient } from '@batonsql/core'
const main = async () => {
  const db = createClient({ url: '${url}' })
  const { rows } = await db.execute('${SELECT}', [1])
  ${check('rows[0].id')}
  await db.close()
}
main()`,
  '@libsql/client': `import { createClient } from '@libsql/client/http'
const db = createClient({ url: '${url}' })
const { rows } = await db.execute({ sql: '${SELECT}', args: [1] })
${check('rows[0].id')}
db.close()`,
  '@tursodatabase/serverless': `import { connect } from '@tursodatabase/serverless'
const db = connect({ url: '${url}' })
const rows = await db.all('${SELECT}', 1)
${check('rows[0].id')}
await db.close()`,
})

const IMPORTED_PACKAGES = ['@batonsql/core', '@libsql/client/http', '@tursodatabase/serverless', 'undici']

/** Measures processes that read one row, and processes that only import a package. @param url the server to query */
export async function measureColdStart(url: string, rounds: number): Promise<Measurement[]> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  try {
    const write = (name: string, text: string): string => {
      const file = `${folder}${name}`
      writeFileSync(file, text)
      return file
    }
    const texts = Object.entries(createPrograms(url))
    const files = Object.fromEntries(texts.map(([name, text], index) => [name, write(`${index}.mjs`, text)]))
    for (const format of ['esm', 'cjs'] as const) {
      const outfile = `${folder}bundle.${format === 'esm' ? 'mjs' : 'cjs'}`
      await build({
        entryPoints: [files['baton'] as string],
        bundle: true,
        minify: true,
        platform: 'node',
        format,
        outfile,
        logLevel: 'error',
      })
      files[`baton, ${format.toUpperCase()} bundle`] = outfile
    }
    const goals = Object.fromEntries(Object.keys(files).map((name) => [name, '>= 1.00']))
    const coldStarts = await runInTurn('process to first row', files, rounds, goals)
    const imports = Object.fromEntries(
      IMPORTED_PACKAGES.map((name, index) => [name, write(`i${index}.mjs`, `import '${name}'`)]),
    )
    const bareNode = { 'bare node': write('bare.mjs', '') }
    return [
      ...coldStarts,
      ...(await runInTurn('process that imports', { ...bareNode, ...imports }, rounds, {})),
    ]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Runs the programs in turn. The first is the baseline. */
async function runInTurn(
  operation: string,
  files: Readonly<Record<string, string>>,
  rounds: number,
  goals: Readonly<Record<string, string>>,
): Promise<Measurement[]> {
  const names = Object.keys(files)
  const samples = new Map<string, number[]>(names.map((name) => [name, []]))
  for (const name of names) await timeProcess(files[name] as string)
  for (let round = 0; round < rounds * 3; round++)
    for (const name of round % 2 === 0 ? names : names.toReversed())
      samples.get(name)?.push(await timeProcess(files[name] as string))
  const baseline = names[0] ?? ''
  return names.map((subject) =>
    toMeasurement(
      {
        suite: 'cold-start',
        operation,
        environment: `node ${process.version}`,
        subject,
        unit: 'ms',
        baseline,
        goal: subject.startsWith('baton') ? goals[subject] : undefined,
      },
      samples.get(subject) ?? [],
      samples.get(baseline) ?? [],
    ),
  )
}

async function timeProcess(file: string): Promise<number> {
  const started = performance.now()
  // the built packages, as users install them; asynchronous, because this process may also run the server
  const child = spawn(process.execPath, [file], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: getCleanEnvironment(),
  })
  const [code] = (await once(child, 'exit')) as [number]
  if (code !== 0) throw new Error(`${file} exited with ${code}`)
  return performance.now() - started
}

function getCleanEnvironment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: _, ...rest } = process.env
  return rest
}
