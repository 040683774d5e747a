/** The parts that can be tested separately in about a minute, with the locations of their tests and the servers they run on. */
const PARTS = {
  core: { projects: ['unit', 'embedded'], files: ['packages/core/', 'test/client/'] },
  kysely: { projects: ['unit', 'embedded'], files: ['packages/kysely-dialect/', 'test/adapters/kysely/'] },
  drizzle: {
    projects: ['unit', 'embedded', 'embedded-drizzle-1'],
    files: ['packages/drizzle-driver/', 'test/adapters/drizzle/', 'test/adapters/drizzle-1/'],
  },
  'libsql-client': {
    projects: ['unit', 'embedded'],
    files: ['packages/libsql-client/', 'test/adapters/libsql-client/'],
  },
  platform: { projects: ['unit', 'embedded'], files: ['packages/platform/', 'test/platform/'] },
  cli: { projects: ['unit', 'embedded'], files: ['packages/cli/', 'test/command/'] },
  'local-server': {
    projects: ['unit'],
    files: ['packages/local-server/', 'internal/', 'test/server/transcripts'],
  },
}

/**
 * What a run without arguments leaves out: projects that take as long as all others together, and the files that
 * test/support/projects.ts lists. They are rarely the only ones that fail.
 */
export const EXCLUDED = {
  text: 'the packed packages, other versions of Kysely and Drizzle, slow tests of programs, crashes, ended access, large bodies, clusters, web pages and the inspector, other libraries, three of four generated histories, and on libsql-server exports, most dumps, and what depends on the client, a library, the command or the registry (npm test -- --all)',
  projects: ['packages', '*-kysely-*', '*-drizzle-*'],
}

/** Whether an argument is neither an option of vitest nor a path. */
const isWord = (arg) => /^[^-./][^./]*$/.test(arg)

/** Returns the arguments for vitest. @throws Error for a part that does not exist */
export function vitestArguments(args) {
  const [first, ...others] = args
  if (first === undefined) return EXCLUDED.projects.flatMap((name) => ['--project', `!${name}`])
  const isAll = first === '--all'
  const remaining = isAll ? others : args
  const end = remaining.findIndex((arg) => !isWord(arg))
  const words = end === -1 ? remaining : remaining.slice(0, end)
  const unknown = words.find((word) => !Object.hasOwn(PARTS, word))
  if (unknown !== undefined)
    throw new Error(
      `unknown part "${unknown}"; the parts are ${Object.keys(PARTS).join(', ')}. For other tests, pass the path of a file or folder.`,
    )
  if (isAll && words.length > 0) throw new Error(`${first} runs all parts: leave out ${words.join(' ')}`)
  const parts = words.map((word) => PARTS[word])
  const projects = new Set(parts.flatMap((part) => part.projects))
  return [
    ...[...projects].flatMap((name) => ['--project', name]),
    ...parts.flatMap(({ files }) => files),
    ...remaining.slice(words.length),
  ]
}
