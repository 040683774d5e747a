import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest'
import { bundleForEdge, EDGE_CONDITIONS, type EdgeServer, serveEdgeFunction, serveWorker } from './edge.ts'
import { ROOT, run } from './run.ts'
import type { Settings } from './scenario/scenario.ts'

/** This version depends on workerd and on miniflare 4, with which the tests start workerd. Later ones depend on a beta of miniflare. */
export const WRANGLER = '4.116.0'
export const EDGE_RUNTIME = '4.0.1'
export const JEST_NAME = 'jest 30.5.2'
export const WORKERD_NAME = `workerd from wrangler ${WRANGLER}`
export const EDGE_RUNTIME_NAME = `edge-runtime ${EDGE_RUNTIME}`

export interface RuntimeTests {
  /** Where the packages, Kysely and Drizzle are installed. */
  readonly project: string
  /** Names of the runtimes. */
  readonly runtimes: readonly string[]
  /** Returns the command that starts a runtime; skips the test if this machine cannot run it. */
  commandOf(name: string, context: TestContext): readonly string[]
}

/** Registers tests that run the same scenario on every runtime, with the installed packages. */
export function testRuntimes({ project, runtimes, commandOf }: RuntimeTests): void {
  describe('core, Kysely, Drizzle and the platform client', () => {
    let server: LocalServer
    let count = 0
    beforeAll(async () => {
      server = await startLocalServer({ platform: {} })
      cpSync(join(ROOT, 'test/packages/scenario'), join(project, 'scenario'), { recursive: true })
      writeFileSync(join(project, 'scenario/package.json'), '{ "type": "module" }')
    })
    afterAll(() => server.close())

    const createSettings = async (): Promise<Settings> => {
      const database = `scenario-${(count += 1)}`
      const { url, authToken = '' } = await server.createDatabase(database)
      const platform = server.platform as NonNullable<typeof server.platform>
      const { organization } = platform
      return {
        url,
        authToken,
        database,
        platformUrl: platform.url,
        platformToken: platform.token,
        organization,
      }
    }
    const OK_OUTPUT = 'core, Kysely, Drizzle, platform: ok'

    const runProgram = async (name: string, context: TestContext, variables: NodeJS.ProcessEnv = {}) => {
      const env = { SETTINGS: JSON.stringify(await createSettings()), ...variables }
      const command = [...commandOf(name, context), 'scenario/program.ts']
      expect(await run(command, { cwd: project, env })).toBe(`${OK_OUTPUT}\n`)
    }
    test.for(runtimes)('on %s', (name, context) => runProgram(name, context))
    test.for(runtimes)('on %s with fake timers', (name, context) =>
      runProgram(name, context, { FAKE_TIMERS: '1' }),
    )
    test.for(runtimes.filter((name) => name.startsWith('node')))(
      'on %s a client is closed while queueMicrotask is fake',
      async (name, context) => {
        const env = { SETTINGS: JSON.stringify(await createSettings()) }
        const command = [...commandOf(name, context), 'scenario/closing.ts']
        expect(await run(command, { cwd: project, env })).toBe('closed\n')
      },
    )

    /** Runs the scenario twice. @returns its output for a new database, and for one whose tables exist */
    const runTwice = async (server: EdgeServer, body?: string): Promise<string[]> => {
      await using edge = server
      const init = { method: 'POST', body: body ?? '' }
      return [await (await edge.fetch('/', init)).text(), await (await edge.fetch('/', init)).text()]
    }
    const EXPECTED_OUTPUTS = [OK_OUTPUT, expect.stringContaining('table value already exists')]

    test(`on ${WORKERD_NAME}`, async (context) => {
      const [entry = ''] = commandOf(WORKERD_NAME, context)
      const bundle = await bundleForEdge(project, 'scenario/worker.ts', EDGE_CONDITIONS.workerd)
      expect(await runTwice(await serveWorker(entry, bundle, { SETTINGS: await createSettings() }))).toEqual(
        EXPECTED_OUTPUTS,
      )
    })

    test(`on ${EDGE_RUNTIME_NAME}`, async (context) => {
      const [entry = ''] = commandOf(EDGE_RUNTIME_NAME, context)
      const conditions = EDGE_CONDITIONS['edge-light']
      const bundle = await bundleForEdge(project, 'scenario/edge-function.ts', conditions, 'iife')
      const body = JSON.stringify(await createSettings())
      expect(await runTwice(await serveEdgeFunction(entry, bundle), body)).toEqual(EXPECTED_OUTPUTS)
    })

    test.for(Object.entries(EDGE_CONDITIONS))(
      'a bundle for %s contains no code for node',
      async ([, conditions]) => {
        const { imports, code } = await bundleForEdge(project, 'scenario/worker.ts', conditions)
        expect(imports).toEqual([])
        expect(code).not.toMatch(/\b(require|import)\(|from "node:/)
      },
    )

    test('a bundle for node contains code for node', async () => {
      const { imports } = await bundleForEdge(project, 'scenario/worker.ts', ['node'])
      expect(imports).toContain('node:diagnostics_channel')
    })
  })
}
