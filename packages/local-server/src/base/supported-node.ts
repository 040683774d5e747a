/** The oldest node that the packages run on, as `engines` in package.json says. */
const OLDEST = [22, 19] as const

/**
 * Says in one sentence that a node is too old, or null when it is not.
 * @param version of node, as `process.versions.node` has it
 */
export function oldNodeProblem(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return null
  return `@batonsql/local-server needs node ${OLDEST.join('.')} or newer, and this is node ${version}`
}

/** For the entries of the package. @throws Error on a node that is too old */
export function refuseOldNode(): void {
  const problem = oldNodeProblem(process.versions.node)
  if (problem !== null) throw new Error(problem)
}
