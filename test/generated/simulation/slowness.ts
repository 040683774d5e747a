import type { History, Sql, Step } from './history.ts'

/** Duration of a deadlock of a transaction with itself, in ms: until both its timeout and the server's have passed. */
const SELF_WAIT_MS = 11_000

const READ_ONLY_SQL: ReadonlySet<Sql> = new Set([
  'select',
  'commented select',
  'missing table',
  'unparsable',
  'large',
  'unreadable',
])

/** Returns the total time that a history's programs sleep or deadlock with themselves, in ms. Other programs may wait for them. */
export function getProgramSlowness({ tasks, faults, server: { lagMs = 0 } }: History): number {
  const faultMs = faults.reduce(
    (sum, { kind, value = 0 }) => sum + (/^(slow|late)$/.test(kind) ? 10 * value : 0),
    0,
  )
  return tasks.reduce((sum, { atMs, steps }) => sum + atMs + sumSlowness(steps, false), faultMs + 30 * lagMs)
}

function sumSlowness(steps: readonly Step[], isInside: boolean): number {
  return steps.reduce((sum, step) => sum + getStepSlowness(step, isInside), 0)
}

function getStepSlowness(step: Step, isInside: boolean): number {
  if (step.do === 'sleep') return step.ms
  const isContainer = step.do === 'transaction' || step.do === 'savepoint' || step.do === 'stream'
  const inner = 'steps' in step && step.steps ? sumSlowness(step.steps, isInside || isContainer) : 0
  if (step.do === 'rows' && step.steps && isInside) return inner + SELF_WAIT_MS
  // a call on the client, made inside a transaction that it has to wait for
  const isOnClient =
    'on' in step ? step.on !== undefined : /^(script|transaction|stream|close|health)$/.test(step.do)
  const statements = 'sql' in step ? [step.sql].flat() : []
  const isRead = statements.length > 0 && statements.every((sql) => READ_ONLY_SQL.has(sql))
  const isAwaited = !('wait' in step) || step.wait !== 'never'
  return inner + (isInside && isOnClient && isAwaited && !isRead ? SELF_WAIT_MS : 0)
}
