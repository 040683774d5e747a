import { DatabaseError, type Outcome } from '../base/errors.ts'

/** A restore stopped in the middle. `restore(db, source, { resume: true })` with the same source goes on where it stands. */
export class RestoreError extends DatabaseError {
  override readonly name = 'RestoreError'
  readonly code = 'RESTORE_STOPPED'
  /** Whether the batch after `applied` may be there all the same; going on looks first. */
  readonly outcome: Outcome
  /** Statements of the source that certainly are applied, from its first. */
  readonly applied: number

  constructor(applied: number, cause: Error, outcome: Outcome = 'not_applied') {
    super(`the restore stopped after ${applied} statements: ${cause.message}`, { cause })
    this.applied = applied
    this.outcome = outcome
  }
}
