import { pick, seeded } from '../../support/random.ts'

/** Makes random choices, determined by a seed. */
export class Chooser {
  readonly random: () => number

  constructor(seed: number) {
    this.random = seeded(seed)
  }

  chance(probability: number): boolean {
    return this.random() < probability
  }

  int(below: number): number {
    return Math.floor(this.random() * below)
  }

  pick<T>(items: readonly T[]): T {
    return pick(this.random, items)
  }

  /** Returns a list of up to this length. Short lists are more frequent. */
  list<T>(maxLength: number, make: () => T): T[] {
    return Array.from({ length: 1 + this.int(1 + this.int(maxLength)) }, make)
  }
}
