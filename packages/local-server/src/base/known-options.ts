/** Refuses option names that do not exist, so that a typo cannot be taken for a default. */
export function checkOptionNames(subject: string, options: object, known: readonly string[]): void {
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) {
      throw new TypeError(`${subject}: unknown option "${name}" (known: ${known.join(', ')})`)
    }
  }
}
