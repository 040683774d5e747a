import { type Group, getGroups } from './expected-rows.ts'
import type { Call } from './ledger.ts'
import type { Commit } from './model-database.ts'
import type { Network } from './network.ts'
import type { Program } from './program.ts'

/** Why a server may reject the second copy of a request whose first copy was executed. */
interface Rejections {
  /** Whether a token expires in the meantime. */
  readonly expires: boolean
  /** Whether a writer is rejected while another one holds the lock. */
  readonly rejectsWriters: boolean
}

/**
 * Compares the contents of the database with the results that callers received.
 * @returns the violations
 */
export function checkRows(
  program: Program,
  network: Network,
  commits: readonly Commit[],
  rejections: Rejections,
): string[] {
  const groups = getGroups(program.ledger.scopes)
  const violations: string[] = []
  const owners = new Map<number, Group>()
  for (const group of groups) for (const tag of group.tags) owners.set(tag, group)
  const commitsByGroup = new Map<Group, Commit[]>()
  for (const commit of commits) {
    const owner = owners.get(commit.tags[0] as number)
    if (!owner) {
      violations.push(`exists, although no call may have written it: ${commit.tags.join()}`)
      continue
    }
    const foreignTags = commit.tags.filter((tag) => owners.get(tag) !== owner)
    if (foreignTags.length > 0)
      violations.push(
        `${owner.name}: committed together with ${foreignTags.join()}, which do not belong to it`,
      )
    commitsByGroup.set(owner, [...(commitsByGroup.get(owner) ?? []), commit])
  }
  for (const group of groups)
    violations.push(...checkGroup(group, commitsByGroup.get(group) ?? [], network, rejections))
  return violations
}

function checkGroup(
  group: Group,
  commits: readonly Commit[],
  network: Network,
  { expires, rejectsWriters }: Rejections,
): string[] {
  const { name, tags, optional, must, rejectsCopies = false } = group
  const required = tags.filter((tag) => !optional.has(tag))
  if (commits.length === 0)
    return must === 'exist' && required.length > 0
      ? [`${name}: acknowledged, but missing: ${required.join()}`]
      : []
  // a proxy that sends a request twice may receive a rejection of the second copy; on a stream, the baton would reveal this
  const isRejectedDuplicate = tags.some(
    (tag) =>
      ((expires || rejectsCopies) && network.repeated.has(tag)) ||
      (rejectsWriters && network.repeatedWithoutBaton.has(tag)) ||
      network.lockedCopies.has(tag),
  )
  if (must === 'not exist' && isRejectedDuplicate) return []
  if (must === 'not exist')
    return [`${name}: must not exist, but does: ${commits.map((commit) => commit.tags.join()).join(' and ')}`]
  const violations: string[] = []
  if (commits.length > 1 && !tags.some((tag) => network.repeated.has(tag)))
    violations.push(
      `${name}: exists ${commits.length} times: ${commits.map((commit) => commit.tags.join()).join(' and ')}`,
    )
  for (const commit of commits) {
    const missing = required.filter((tag) => !commit.tags.includes(tag))
    if (missing.length > 0)
      violations.push(`${name}: torn: ${missing.join()} is missing, but ${commit.tags.join()} exists`)
    const order = commit.tags.filter((tag) => tags.includes(tag)).map((tag) => tags.indexOf(tag))
    if (order.some((position, index) => index > 0 && position < (order[index - 1] as number)))
      violations.push(`${name}: not in the order of the calls: ${commit.tags.join()}`)
  }
  return violations
}

/** Describes a call in messages. */
export const describeCall = (call: Call): string =>
  `call ${call.id} (${call.operation}${call.sql.length > 0 ? ` ${call.sql.join(', ')}` : ''}) at ${call.at} ms`
