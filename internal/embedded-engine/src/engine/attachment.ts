/** A copy of another database that the engine can open. */
export interface Attachment {
  /** The name for the engine. */
  readonly name: string
  /** Removes the copy; called when it is closed. */
  remove(): void
}
