import { findTargets, type TargetName } from './targets.ts'

declare module 'vitest' {
  interface ProvidedContext {
    target: TargetName
  }
}

/** One vitest project for each server that can be tested against. */
export async function endToEndProjects() {
  const targets = await findTargets()
  return targets
    .filter((target) => target.unavailable === null)
    .map(({ name }) => ({
      name,
      // a cluster is one of real servers
      include: ['test/end-to-end/**/*.test.ts', ...(name === 'sqld' ? ['test/cluster/*.test.ts'] : [])],
      testTimeout: 30_000,
      provide: { target: name },
      // one database for everybody: the files take turns
      fileParallelism: name !== 'url' && name !== 'container',
    }))
}

/** Versions of Drizzle besides the one that the end-to-end tests meet anyway, and the tests that run on each. */
const DRIZZLE_VERSIONS = [
  // drizzle-kit brings a Drizzle of its own
  {
    name: 'drizzle-0.44',
    include: [
      'test/drizzle-0.44/*.test.ts',
      'test/end-to-end/drizzle-*.test.ts',
      'packages/drizzle-driver/src/internals.test.ts',
    ],
    exclude: ['test/end-to-end/drizzle-kit.test.ts'],
  },
  { name: 'drizzle-1', include: ['test/drizzle-1/**/*.test.ts'], exclude: [] },
]

/** The same servers, with another version of Drizzle under the name of Drizzle. */
export async function drizzleProjects() {
  const projects = await endToEndProjects()
  return DRIZZLE_VERSIONS.flatMap(({ name, ...files }) =>
    projects.map((project) => ({
      alias: [{ find: /^drizzle-orm(?=\/|$)/, replacement: name.replace('drizzle', 'drizzle-orm') }],
      test: { ...project, name: `${project.name}-${name}`, ...files },
    })),
  )
}
