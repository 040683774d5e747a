import { type Group, groupsOf } from './expected-rows.ts'
import type { Call } from './ledger.ts'
import type { Commit } from './model-database.ts'
import type { Network } from './network.ts'
import type { Program } from './program.ts'

/** Reasons for which a server may reject the second copy of a request whose first copy was executed. */
interface Rejections {
  /** Whether a token expires meanwhile. */
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
  const groups = groupsOf(program.ledger.scopes)
  const mistakes: string[] = []
  const owners = new Map<number, Group>()
  for (const group of groups) for (const tag of group.tags) owners.set(tag, group)
  const found = new Map<Group, Commit[]>()
  for (const commit of commits) {
    const owner = owners.get(commit.tags[0] as number)
    if (!owner) {
      mistakes.push(`there, but no call that counts wrote it: ${commit.tags.join()}`)
      continue
    }
    const outsiders = commit.tags.filter((tag) => owners.get(tag) !== owner)
    if (outsiders.length > 0)
      mistakes.push(`${owner.name}: in one commit with ${outsiders.join()}, which are not part of it`)
    found.set(owner, [...(found.get(owner) ?? []), commit])
  }
  for (const group of groups) mistakes.push(...checkGroup(group, found.get(group) ?? [], network, rejections))
  return mistakes
}

function checkGroup(
  group: Group,
  commits: readonly Commit[],
  network: Network,
  { expires, rejectsWriters }: Rejections,
): string[] {
  const { name, tags, optional, must } = group
  const needed = tags.filter((tag) => !optional.has(tag))
  if (commits.length === 0)
    return must === 'be there' && needed.length > 0
      ? [`${name}: acknowledged, but not there: ${needed.join()}`]
      : []
  // a proxy that sends a request twice may receive a rejection of the second copy; on a stream, its baton would reveal it
  const isRejectedDuplicate = tags.some(
    (tag) =>
      (expires && network.repeated.has(tag)) || (rejectsWriters && network.repeatedWithoutBaton.has(tag)),
  )
  if (must === 'not be there' && isRejectedDuplicate) return []
  if (must === 'not be there')
    return [
      `${name}: must not be there, but is: ${commits.map((commit) => commit.tags.join()).join(' and ')}`,
    ]
  const mistakes: string[] = []
  if (commits.length > 1 && !tags.some((tag) => network.repeated.has(tag)))
    mistakes.push(
      `${name}: there ${commits.length} times: ${commits.map((each) => each.tags.join()).join(' and ')}`,
    )
  for (const commit of commits) {
    const missing = needed.filter((tag) => !commit.tags.includes(tag))
    if (missing.length > 0)
      mistakes.push(`${name}: torn: ${missing.join()} is missing beside ${commit.tags.join()}`)
    const order = commit.tags.filter((tag) => tags.includes(tag)).map((tag) => tags.indexOf(tag))
    if (order.some((at, index) => index > 0 && at < (order[index - 1] as number)))
      mistakes.push(`${name}: not in the order of the calls: ${commit.tags.join()}`)
  }
  return mistakes
}

/** The name of a call in messages. */
export const nameOf = (call: Call): string =>
  `call ${call.id} (${call.what}${call.sql.length > 0 ? ` ${call.sql.join(', ')}` : ''}) at ${call.at} ms`
