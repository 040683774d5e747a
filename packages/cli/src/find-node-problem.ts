/** Oldest supported version of Node.js, as in `engines` of package.json. */
const OLDEST_VERSION = [22, 19] as const

/**
 * Returns an error message for a version of Node.js that is too old; null if it is supported.
 * @param version as in `process.versions.node`
 */
export function findNodeProblem(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > OLDEST_VERSION[0] || (major === OLDEST_VERSION[0] && minor >= OLDEST_VERSION[1])) return null
  return `@batonsql/cli requires node ${OLDEST_VERSION.join('.')} or newer, but this is node ${version}`
}
