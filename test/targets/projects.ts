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
      include: ['test/end-to-end/**/*.test.ts'],
      testTimeout: 30_000,
      provide: { target: name },
      // one database for everybody: the files take turns
      fileParallelism: name !== 'url' && name !== 'container',
    }))
}

/** The same for `@batonsql/drizzle-driver/v1`, with Drizzle 1.0 under the name of Drizzle. */
export async function drizzle1Projects() {
  const projects = await endToEndProjects()
  return projects.map((project) => ({
    ...project,
    name: `${project.name}-drizzle-1`,
    include: ['test/drizzle-1/**/*.test.ts'],
  }))
}
