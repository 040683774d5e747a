/** A copy of another database that the engine can open. */
export interface Attachment {
  /** Name by which the engine opens it. */
  readonly name: string
  /** Removes the copy; called when the session is closed. */
  remove(): void
}
