import { inspect } from 'node:util'
import { DatabaseError } from '@batonsql/core'

/** Describes what a program can read of an error. */
function describeError(error: Error): string {
  const { outcome, message, code, cause } = error as Error & { outcome?: unknown; code?: unknown }
  const reason = cause instanceof DatabaseError ? ` because of ${describeError(cause)}` : ''
  return `${error.name} ${inspect([outcome, message, code])}${reason}`
}

/** Records errors as they were when they were thrown or reported. */
export class RecordedErrors {
  readonly #texts = new Map<Error, { readonly text: string; readonly stack: string | undefined }>()

  /** @param isThrown whether the program caught it; an event receives it earlier, without its stack */
  record(error: unknown, isThrown: boolean): void {
    if (!(error instanceof DatabaseError)) return
    const stack = isThrown ? error.stack : undefined
    const recorded = this.#texts.get(error)
    if (!recorded?.stack) this.#texts.set(error, { text: recorded?.text ?? describeError(error), stack })
  }

  /** Reports the errors that have changed since they were recorded. */
  findChanges(): string[] {
    return [...this.#texts].flatMap(([error, { text, stack }]) => {
      const changes: string[] = []
      if (describeError(error) !== text)
        changes.push(`an error has changed: ${text} to ${describeError(error)}`)
      if (stack !== undefined && error.stack !== stack)
        changes.push(`the stack of an error has changed: ${error.stack}`)
      return changes
    })
  }
}
