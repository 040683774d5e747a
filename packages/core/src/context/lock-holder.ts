/** A transaction, as far as those have to know of it that want its write lock. */
export interface LockHolder {
  /** Whether it has the write lock, or is about to get it. */
  readonly holdsLock: boolean
  /** Since when it has no request under way; null while it has one. */
  readonly idleSince: number | null
  readonly lastSql: string | undefined
}
