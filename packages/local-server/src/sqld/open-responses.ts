import type { Readable } from 'node:stream'
import type { DatabaseId } from '../backend/backend.ts'

/** Change streams that are on their way to clients: the server goes on with them whatever becomes of their tokens. */
export class OpenAnswers {
  readonly #answers = new Map<DatabaseId, Set<Readable>>()

  add(id: DatabaseId, answer: Readable): void {
    const answers = this.#answers.get(id) ?? new Set()
    this.#answers.set(id, answers.add(answer))
    answer.once('close', () => {
      answers.delete(answer)
      if (answers.size === 0 && this.#answers.get(id) === answers) this.#answers.delete(id)
    })
  }

  /** Breaks off those of a database. */
  end(id: DatabaseId): void {
    for (const answer of this.#answers.get(id) ?? []) answer.destroy()
  }
}
