/** A copy of another database that the engine can open. */
export interface Attachment {
  /** As the engine knows it. */
  readonly name: string
  /** To be called when it is closed. */
  remove(): void
}
