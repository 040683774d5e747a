import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { bundleEngineWorker } from './test/support/bundle-engine-worker.ts'
import { LongestFirst } from './test/support/longest-first.ts'
import {
  drizzleProjects,
  endToEndProjects,
  imageProjects,
  kyselyProjects,
  leftOut,
  MAX_WORKERS,
  ON_EACH_SERVER,
  POLLING,
  SETUP_FILES,
  TEST_TIMEOUT_MS,
} from './test/support/projects.ts'

// Tests use the sources of the workspace. Vitest resolves modules in three places, so the condition is set three times.
const conditions = ['@batonsql/source', 'node', 'import', 'default']
const source = {
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  environments: { __vitest__: { resolve: { conditions } } },
}

/** Caches compiled sources for the processes that tests start, because compiling takes half the time of a short process. */
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(
  new URL('node_modules/.cache/compiled-sources', import.meta.url),
)

const project = { ...source, plugins: [await bundleEngineWorker(conditions)] }

export default defineConfig(async () => ({
  ...source,
  test: {
    reporters: [
      'default',
      './test/support/summary-reporter.ts',
      ...(process.env['UPDATE_DOCS'] === undefined ? [] : ['./test/support/works-with-reporter.ts']),
    ],
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        ...project,
        test: {
          name: 'unit',
          include: [
            '{packages,internal}/*/src/**/*.test.ts',
            'test/client/opentelemetry/*.test.ts',
            'test/command/*.test.ts',
            'test/docs/*/*.test.ts',
            'test/generated/*/*.test.ts',
            'test/server/*.test.ts',
            'test/server/use-database/*.test.ts',
            'test/support/*.test.ts',
            'test/tursodb/*.test.ts',
          ],
          exclude: [...ON_EACH_SERVER, ...leftOut('unit')],
          testTimeout: TEST_TIMEOUT_MS,
          hookTimeout: TEST_TIMEOUT_MS,
          expect: POLLING,
          setupFiles: SETUP_FILES,
          // otherwise, starting a process for each file would take a fifth of the CPU time
          isolate: false,
          maxWorkers: MAX_WORKERS,
        },
      },
      {
        ...project,
        test: {
          name: 'security',
          include: ['test/security/*.test.ts'],
          exclude: [...leftOut('security')],
          testTimeout: TEST_TIMEOUT_MS,
          hookTimeout: TEST_TIMEOUT_MS,
          expect: POLLING,
          setupFiles: SETUP_FILES,
          isolate: false,
          maxWorkers: MAX_WORKERS,
        },
      },
      {
        ...project,
        // installs the output of `npm pack`, as users do
        test: {
          name: 'packages',
          include: ['test/packages/*.test.ts'],
          // compilers and installations take minutes on a busy machine
          testTimeout: 3 * TEST_TIMEOUT_MS,
          hookTimeout: TEST_TIMEOUT_MS,
          expect: POLLING,
          globalSetup: ['test/packages/pack-all.ts'],
          maxWorkers: MAX_WORKERS,
        },
      },
      ...[...(await endToEndProjects()), ...(await imageProjects())].map((test) => ({ ...project, test })),
      ...[...(await drizzleProjects()), ...(await kyselyProjects())].map(({ alias, test }) => ({
        ...project,
        resolve: { conditions, alias },
        test,
      })),
    ],
  },
}))
