import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

const SOURCES = fileURLToPath(new URL('page/', import.meta.url))

let building: Promise<ReadonlyMap<string, string>> | null = null

/** Returns a file of the page, for a server that runs from its sources. Builds the page once. */
export async function readPageFile(name: string): Promise<string> {
  building ??= buildPage().catch((error: unknown) => {
    building = null // retried by the next call
    throw error
  })
  const text = (await building).get(name)
  if (text === undefined) throw new Error(`the page has no ${name}`)
  return text
}

/** Builds the page. @returns its files by name */
export async function buildPage(): Promise<ReadonlyMap<string, string>> {
  const result = await build({
    configFile: false,
    logLevel: 'error',
    root: SOURCES,
    publicDir: false,
    // regardless of the mode in which this process runs
    mode: 'production',
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    build: {
      write: false,
      target: 'es2023',
      modulePreload: false,
      // a library, so that the script is a single file with a fixed name
      lib: { entry: join(SOURCES, 'page.tsx'), formats: ['es'], fileName: () => 'page.js' },
      minify: true,
    },
  })
  // Vite returns one output for each format
  const output = Array.isArray(result) ? result[0] : result
  if (!output || !('output' in output)) throw new Error('Vite produced no output')
  const [script] = output.output
  // the folders of the packages that the bundled modules are in
  const folders = new Set(
    script.moduleIds.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []),
  )
  const licenses = await Promise.all([...folders].map(readLicense))
  return new Map([
    ['page.js', `/*!\n${licenses.join('\n')}*/\n${script.code}`],
    ...(await Promise.all(
      ['page.html', 'page.css'].map(
        async (name): Promise<[string, string]> => [name, await readFile(join(SOURCES, name), 'utf8')],
      ),
    )),
  ])
}

/** Returns the license of a library that the page contains. */
async function readLicense(folder: string): Promise<string> {
  const read = (name: string): Promise<string> => readFile(join(folder, name), 'utf8')
  const { name, version } = JSON.parse(await read('package.json')) as { name: string; version: string }
  return `${name} ${version}\n\n${await read('LICENSE')}`
}
